"""Which parameters of a PTX kernel point to memory that it may write: what the addresses of its stores are made of."""

from __future__ import annotations

from engine.compiler.ptx_parser import SIZES, Address, Entry, Group, Instruction, Symbol, registers

Place = tuple[str, int]  # a parameter, and a byte of it
_ANY = ("", -1)  # a pointer that came from memory
_STORES = ("st", "atom", "red", "cp")


def stored_parameters(entry: Entry) -> set[Place] | None:
    """Where the parameters hold the pointers that stores and atomics go through; None where it may be any pointer.

    Only 64-bit registers hold addresses, and what is computed from several may lie where any of these point to. A
    64-bit number that comes from memory, or is put together from halves, may be an address.
    """
    instructions = [item for item in entry.body if isinstance(item, Instruction)]
    roots: dict[str, set[Place]] = {}
    changed = True
    while changed:
        changed = False
        for one in instructions:
            found = _roots_of(one, roots)
            for name in one.writes if found else ():
                if SIZES.get(entry.type_of(name) or "", 0) == 8 and not found <= roots.get(name, set()):
                    roots.setdefault(name, set()).update(found)
                    changed = True
    stored: set[Place] = set()
    for one in instructions:
        if one.parts[0] in _STORES:
            # the addresses: of `cp` the first is the one that is written
            address = next((operand for operand in one.operands if isinstance(operand, Address)), None)
            for name in registers(address) if address is not None else ():
                stored |= roots.get(name, set())
    return None if _ANY in stored else stored


def _roots_of(one: Instruction, roots: dict[str, set[Place]]) -> set[Place]:
    """What the result of an instruction may point to."""
    if one.parts[0] in ("ld", "ldu", "atom", "shfl") or one.parts[0] == "mov" and _puts_together(one):
        address = one.operands[1] if len(one.operands) > 1 else None
        if "param" in one.parts and isinstance(address, Address) and isinstance(address.base, Symbol):
            return {(address.base.name, address.offset)}
        return {_ANY}
    found: set[Place] = set()
    for operand in one.operands[1:]:
        if isinstance(operand, Symbol):
            found.add(_ANY)  # a variable of the module
        for name in registers(operand):
            found |= roots.get(name, set())
    return found


def _puts_together(one: Instruction) -> bool:
    return any(isinstance(operand, Group) for operand in one.operands[1:])
