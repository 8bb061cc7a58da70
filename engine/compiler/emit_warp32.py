"""A PTX kernel to the words that the emulated GPU runs: for each instruction its handler and what the handler needs.

`emit_warp32_handler` says what handlers are, `emit_warp32_flow` how blocks follow each other. Registers lie in the
warp's state, 32 lanes each. One that no other block reads shares its place with others; one that lives from block to
block has its own, where a block that not all lanes run leaves the lanes of the others alone.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.compiler import emit_warp32_memory as emit_warp32_memory  # its rules register themselves
from engine.compiler.emit_warp32_flow import EDGE
from engine.compiler.emit_warp32_handler import AccessKind, Given, Operation, Place, Slot, operation
from engine.compiler.emit_warp32_ops import form
from engine.compiler.ptx_flow import EXIT, Block, Flow, flow, is_barrier, needs_warp, postdominators
from engine.compiler.ptx_parser import (
    SIZES,
    Address,
    Entry,
    Group,
    Imm,
    Instruction,
    Module,
    Operand,
    PtxError,
    Reg,
    Symbol,
    Variable,
)
from engine.compiler.warp_layout import LANES, LEFT, WAITING, WARP

_WORD = (1 << 64) - 1
# operands that decide what code is made: opcode → their numbers. A shift by a constant is one operation instead of four
_FIXED = {"lop3": (4,), "cp": (2,), "prmt": (3,), "div": (2,), "rem": (2,), "bfe": (2, 3), "bfi": (3, 4),
          "shl": (2,), "shr": (2,), "shf": (3,), "bar": (0, 1), "barrier": (0, 1)}  # fmt: skip
_SETS_CARRY, _READS_CARRY = "cc", ("addc", "subc", "madc")
Key = tuple[str | int, ...]
_by_key: dict[Key, Operation] = {}
_by_name: dict[str, Operation] = {}


@dataclass(frozen=True)
class CodeForm:
    """What the code is made for: how lanes are scheduled; for a debugger, where the kernel and its body begin."""

    schedule: str = "loop-aware"
    head: tuple[int, int] = (0, 0)  # lines of the kernel and of its body; (0, 0): nobody wants to stop
    quiet: frozenset[int] = frozenset()  # files whose lines are none to stop at

    def begins(self, instruction: Instruction, before: Instruction | None) -> bool:
        """Whether a basic block has to begin here: where lanes wait for each other, or at a new line."""
        if self.head[1] and before is not None and instruction.loc != before.loc and instruction.loc[1]:
            return True
        return self.schedule == "random" and needs_warp(instruction)


@dataclass(frozen=True)
class Site:
    """One memory access in the text, for reports."""

    line: int  # of the PTX
    loc: tuple[int, int]  # file number and line of the source
    what: str  # "load", "store", "atomic"
    space: str
    size: int  # of the whole access
    parts: int = 1  # elements of a vector, which are accessed one by one


@dataclass
class WarpCode:
    """A kernel as words, and what a launch has to know about it."""

    name: str
    words: array[int]  # i64; a handler is the number of its key, a target its distance from the first word in bytes
    handlers: array[int]  # numbers of the words that are handlers
    targets: array[int]  # numbers of the words that are targets
    blocks: list[int]  # the word that the block of each place begins with
    names: list[str]  # of handlers: of the runtime, or of operations
    sites: list[Site]
    params: list[tuple[Variable, int]]  # with offsets
    params_size: int
    shared_size: int  # static; dynamic shared memory follows
    local_size: int  # bytes of each thread
    warp_size: int  # bytes of a warp's state
    start: int  # what `next` of a lane is at first
    schedule: str
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    meeting: list[bool] = field(default_factory=list)  # places where lanes wait for the others of the warp
    tree: list[int] = field(default_factory=list)  # parents, then ranks of places among the post-dominators
    lines: list[tuple[int, int]] = field(default_factory=list)  # file and line of each place; (0, 0): not known
    stops: list[tuple[int, int]] = field(default_factory=list)  # the same, (0, 0) where a debugger does not stop
    registers: dict[str, int] = field(default_factory=dict)  # where a warp's state has those that live between blocks
    own_file: int = 0  # number of the file that the kernel begins in


def lay_out(variables: list[Variable], gap: int = 0) -> tuple[dict[str, int], int]:
    """Offset of each variable, one behind the other, and the size of all."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        end = -(-end // max(variable.align, 1)) * max(variable.align, 1)
        offsets[variable.name] = end
        end += variable.size + gap
    return offsets, end


def emit_warp(module: Module, entry: Entry, globals_at: dict[str, int], code_form: CodeForm | None = None) -> WarpCode:
    """The code of one kernel. `globals_at` are the places of the module's variables in its block of memory.

    Raises `PtxError` for whatever there is no rule for.
    """
    return _Kernel(module, entry, globals_at, code_form or CodeForm()).code()


def operations() -> Mapping[str, Operation]:
    """The operations of all kernels so far that were translated in this process, by their names."""
    return _by_name


class _Kernel:
    def __init__(self, module: Module, entry: Entry, globals_at: dict[str, int], code_form: CodeForm):
        self.module, self.entry, self.form = module, entry, code_form
        self.words = array("q")
        self.handlers, self.targets = array("q"), array("q")
        self.numbers: dict[str, int] = {}  # of handlers
        self.sites: list[Site] = []
        self.places = _Registers(entry)
        self.arguments: dict[tuple[str, int], Operand] = {}  # of a call: name and offset → what it was given
        self.carries = False
        self._place_symbols(globals_at)

    def _place_symbols(self, globals_at: dict[str, int]) -> None:
        entry = self.entry
        variables = (*self.module.variables.values(), *entry.variables)
        used: set[str] = set()
        if any(v.space in ("shared", "local") for v in variables):
            used = {name for item in entry.body if isinstance(item, Instruction) for name in _symbols(item.operands)}
        shared = [v for v in variables if v.space == "shared" and v.name in used]
        shared.sort(key=lambda v: v.size == 0)  # dynamic memory, which has no size in the text, comes last
        self.params, self.params_size = lay_out(entry.params)
        shared_at, self.shared_size = lay_out(shared)
        local = [v for v in entry.variables if v.space == "local"]
        local += [v for v in self.module.variables.values() if v.space == "local" and v.name in used]
        local_at, self.local_size = lay_out(local)
        self.symbols: dict[str, tuple[str, int]] = {}
        for space, places in (
            ("global", globals_at),
            ("shared", shared_at),
            ("local", local_at),
            ("param", self.params),
        ):
            self.symbols.update({name: (space, offset) for name, offset in places.items()})

    def code(self) -> WarpCode:
        found = flow(self.entry, self.form.begins)
        self.position = found.position
        self.stops: list[tuple[int, int]] = [(0, 0)] * len(found.blocks)
        places = (item.loc for item in self.entry.body if isinstance(item, Instruction) and item.loc[1])
        self.own_file = next(places, (0, 0))[0]
        if len(found.blocks) >= WAITING:
            raise PtxError(
                self.entry.line, f"the function has {len(found.blocks)} basic blocks, the limit is {WAITING}"
            )
        self.places.share(found, everything=bool(self.form.head[1]))
        self.begins = [0] * len(found.blocks)
        for number in found.order:
            self.begins[self.position[number]] = len(self.words)
            self._block(number, found.blocks[number])
        for place in self.targets:
            self.words[place] = 8 * self.begins[self.words[place]]
        params = [(p, self.params[p.name]) for p in self.entry.params]
        return WarpCode(self.entry.name, self.words, self.handlers, self.targets, self.begins, list(self.numbers),
                        self.sites, params, self.params_size, self.shared_size, self.local_size, self.places.size,
                        self.position[0], self.form.schedule, self.entry.limits, self._meeting(found),
                        self._tree(found), [_first_line(found.blocks[block]) for block in found.order], self.stops,
                        self.places.own, self.own_file)  # fmt: skip

    def _meeting(self, found: Flow) -> list[bool]:
        """By place: whether the block begins with what lanes wait for each other at."""
        firsts = [(*block.body, *((block.ending,) if block.ending else ())) for block in found.blocks]
        return [bool(firsts[block]) and needs_warp(firsts[block][0]) for block in found.order]

    def _tree(self, found: Flow) -> list[int]:
        """The tree of post-dominators by places."""
        ends = [_ends(block) for block in found.blocks]
        parents, ranks = postdominators([block.successors for block in found.blocks], ends)
        place = [*self.position, len(found.blocks)]
        by_place = [*found.order, len(found.blocks)]
        return [place[parents[block]] for block in by_place] + [ranks[block] for block in by_place]

    # words

    def _handler(self, name: str, *words: int) -> None:
        self.handlers.append(len(self.words))
        self.words.append(self.numbers.setdefault(name, len(self.numbers)))
        self.words.extend(words)

    def _edge(self, place: int, target: int) -> None:
        to = self.position[target]
        self.words.extend((to, to, int(to <= place)))
        self.targets.append(len(self.words) - EDGE + 1)

    def _site(self, instruction: Instruction, kind: AccessKind) -> int:
        self.sites.append(Site(instruction.line, instruction.loc, kind.what, kind.space, kind.size, kind.parts))
        return len(self.sites) - 1

    # blocks

    def _block(self, number: int, block: Block) -> None:
        place = self.position[number]
        self.arguments, self.carries = {}, False
        if self.form.head[1]:
            self._stop(place, block)
        self._handler("emu_count", len(block.body) + (1 if block.ending else 0))
        self.places.enter(block)
        for number, instruction in enumerate(block.body):
            self._instruction(instruction)
            self.places.leave(number)
        ending = block.ending
        if ending is not None:
            form(ending)
        kind = ending.parts[0] if ending else ""
        if ending is None or kind == "bra" and not ending.guard:
            self._jump(place, block.targets[0] if ending else block.follow)
        elif kind == "bra":
            self._some("emu_branch", ending, place, block.targets[0], block.follow)
        elif kind == "brx":
            self._indexed(ending, block.targets)
        elif kind == "trap":
            if ending.guard:
                raise PtxError(ending.line, "a guarded trap is not supported")
            self._handler("emu_trapped", self._site(ending, AccessKind("trap", "", 0, 1)))
        elif is_barrier(ending):
            self._barrier(ending, place, block.follow)
        elif ending.guard:
            self._some("emu_leave_some", ending, place, block.follow)
        else:
            self._handler("emu_leave")

    def _stop(self, place: int, block: Block) -> None:
        """A debugger may stop here: all registers are in the warp's state."""
        first = next(iter((*block.body, *((block.ending,) if block.ending else ()))), None)
        if first is None or not first.loc[1] or first.loc[0] in self.form.quiet:
            return
        begins, body = self.form.head
        if first.loc[0] == self.own_file and begins <= first.loc[1] < body:
            return  # what comes before the kernel's body
        self.stops[place] = first.loc
        self._handler("emu_stop", place, first.loc[0] << 24 | first.loc[1])

    def _jump(self, place: int, target: int) -> None:
        """All lanes go to one block."""
        if target == EXIT:
            self._handler("emu_leave")
        else:
            self._handler("emu_edge")
            self._edge(place, target)

    def _some(self, handler: str, ending: Instruction, place: int, *targets: int) -> None:
        """What an ending does for the lanes of its guard, and where the lanes go on that go on."""
        if targets[-1] == EXIT:
            raise PtxError(ending.line, f"the function ends behind '{ending.opcode}', which not all threads take")
        self._handler(handler, self._guard(ending), -1 if ending.negated else 0)
        for target in targets:
            self._edge(place, target)

    def _indexed(self, ending: Instruction, targets: tuple[int, ...]) -> None:
        """Each lane goes where its index says."""
        index = ending.operands[0]
        place, bits = self.places.of(index.name) if isinstance(index, Reg) else (0, 0)
        if bits != 32 or ending.guard:
            raise PtxError(ending.line, f"'{ending.opcode}' needs a register of 32 bits and no guard")
        self._handler("emu_indexed", place, len(targets), *(self.position[target] for target in targets))

    def _barrier(self, ending: Instruction, place: int, follow: int) -> None:
        barrier = ending.operands[0] if ending.operands else Imm(0)
        if len(ending.operands) > 1 or not isinstance(barrier, Imm) or barrier.value or "red" in ending.parts:
            raise PtxError(ending.line, f"'{ending.opcode}' is supported for barrier 0 and all threads only")
        site = self._site(ending, AccessKind("barrier", "", 0, 1))
        if ending.guard:
            self._some("emu_wait_some", ending, place, follow)
            self.words.append(site)
        else:
            self._handler("emu_wait", site, LEFT if follow == EXIT else self.position[follow])

    # instructions

    def _instruction(self, one: Instruction) -> None:
        if one.parts[0] == "call":
            self._call(one)
            return
        if "param" in one.parts and self._is_argument(one):
            return
        if one.parts[0] in _READS_CARRY and not self.carries:
            raise PtxError(one.line, f"'{one.opcode}' reads a carry that no instruction of its block has set")
        self.carries |= _SETS_CARRY in one.parts
        self._operation(one)

    def _operation(self, one: Instruction) -> None:
        """The handler of an instruction, and its words."""
        key: list[str | int] = [one.opcode]
        words: list[int] = []
        if one.guard:
            key.append("-" if one.negated else "+")
            words.append(self._guard(one))
        fixed = _FIXED.get(one.parts[0], ())
        writes = bool(one.writes)
        for number, operand in enumerate(one.operands):
            self._describe(one, operand, key, words, writes, number in fixed)
            writes = False
        self._append(one, tuple(key), words)

    def _append(self, one: Instruction, key: Key, words: list[int]) -> None:
        known = _by_key.get(key)
        if known is None:
            made = operation(_as_described(one, key), len(words))
            known = _by_key[key] = _by_name.setdefault(made.name, made)  # several forms may be one operation
        if known.accesses:
            words.extend(self._site(one, kind) for kind in known.accesses)
        self._handler(known.name, *words)

    def _guard(self, one: Instruction) -> int:
        """The place of the guard."""
        place, bits = self.places.of(one.guard)
        if bits != 1:
            raise PtxError(one.line, f"the guard {one.guard} is no predicate")
        return place

    def _describe(self, one: Instruction, operand: Operand, key: list[str | int], words: list[int], writes: bool,
                  fixed: bool) -> None:  # fmt: skip
        """What a handler depends on goes to the key, what it reads to the words; `_as_described` is the reverse."""
        if isinstance(operand, Reg):
            name = operand.name
            if name[0] == "!":
                place, bits = self.places.of(name[1:])
                if not bits:
                    raise PtxError(one.line, f"unknown register '{name[1:]}'")
                key.append("!")
            else:
                place, bits = self.places.of(name)
                key.append(name if not bits else "kept" if writes and name in self.places.own else "register")
            if bits:
                key.append(bits)
                words.append(place)
        elif isinstance(operand, Imm):
            if fixed:
                key.extend(("=", operand.value, operand.bits))
            else:
                key.extend(("constant", operand.bits))
                words.append(_signed(operand.value))
        elif isinstance(operand, Address):
            key.append("[")
            self._describe(one, operand.base, key, words, False, False)
            words.append(operand.offset)
        elif isinstance(operand, Symbol):
            if operand.name == "WARP_SZ":
                space, offset = "lanes", LANES
            elif operand.name in self.symbols:
                space, offset = self.symbols[operand.name]
            else:
                raise PtxError(one.line, f"unknown name '{operand.name}'")
            key.append(space)
            words.append(offset)
        else:
            key.extend(("{", len(operand.items)))
            for item in operand.items:
                self._describe(one, item, key, words, writes, False)

    # calls

    def _is_argument(self, one: Instruction) -> bool:
        """Whether it gives a call an argument, or takes its result: these are no accesses to memory."""
        storing = one.parts[0] == "st"
        address = one.operands[0 if storing else 1] if len(one.operands) > 1 else None
        if one.parts[0] not in ("ld", "st") or not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return False
        taken = form(one)
        given = one.operands[1 if storing else 0]
        items = given.items if isinstance(given, Group) else (given,)
        size, name = SIZES[taken.kind], address.base.name
        for number, item in enumerate(items):
            offset = address.offset + number * size
            if storing:
                held = Reg(f"%argument {name} {offset}")
                self.places.declare(held.name, size)
                self._operation(Instruction(one.line, f"mov.b{8 * size}", (held, item), loc=one.loc))
                self.arguments[name, offset] = held
            elif (name, offset) in self.arguments:
                self._operation(
                    Instruction(one.line, f"mov.b{8 * size}", (item, self.arguments[name, offset]), loc=one.loc)
                )
            else:
                self._check_parameter(one, name, offset, size)
        return storing or (name, address.offset) in self.arguments

    def _check_parameter(self, one: Instruction, name: str, offset: int, size: int) -> None:
        found = next((p for p in self.entry.params if p.name == name), None)
        if found is None or not 0 <= offset <= found.size - size:
            reason = f"reads beyond the parameter '{name}'" if found else f"reads '{name}', which has no value"
            raise PtxError(one.line, f"'{one.opcode}' {reason}")

    def _call(self, one: Instruction) -> None:
        """Calls a function that every driver has. The arguments are what `st.param` stored before."""
        form(one)
        name = next((o for o in one.operands if isinstance(o, Symbol)), None)
        groups = [o for o in one.operands if isinstance(o, Group)]
        if name is None or not groups:
            raise PtxError(one.line, f"'{one.opcode}' calls through a pointer, or passes nothing")
        passed: list[Operand] = []
        for item in groups[-1].items:
            held = self.arguments.get((item.name, 0)) if isinstance(item, Reg | Symbol) else None
            if held is None:
                raise PtxError(one.line, f"'{one.opcode}' passes what has no value")
            passed.append(held)
        key: list[str | int] = [one.opcode, name.name]
        words: list[int] = []
        if one.guard:
            raise PtxError(one.line, f"'{one.opcode}' is not supported under a guard")
        arguments = Group(tuple(passed))
        self._describe(one, arguments, key, words, False, False)
        self._append(replace(one, operands=(Symbol(name.name), arguments)), tuple(key), words)
        for item in groups[0].items if len(groups) > 1 else ():
            assert isinstance(item, Reg | Symbol)
            self.arguments[item.name, 0] = Imm(0)


def _as_described(one: Instruction, key: Key) -> Instruction:
    """The instruction as its key describes it: with the numbers of words for what differs from case to case."""
    parts, words = iter(key[1 + bool(one.guard) :]), itertools.count(int(bool(one.guard)))

    def read(operand: Operand) -> Operand:
        part = next(parts)
        if isinstance(operand, Reg):
            if part == operand.name:
                return operand  # a special register
            bits = next(parts)
            assert isinstance(bits, int)
            return Slot(operand.name, next(words), bits, part == "!", part == "kept")
        if isinstance(operand, Imm):
            bits = next(parts)
            assert isinstance(bits, int)
            if part == "constant":
                return Given("", next(words), bits)
            next(parts)
            return operand
        if isinstance(operand, Address):
            base = read(operand.base)
            assert isinstance(base, Reg | Symbol | Imm)
            return Address(base, next(words))
        if isinstance(operand, Group):
            next(parts)
            return Group(tuple(map(read, operand.items)), operand.pair)
        if part == "lanes":
            return Given("", next(words))
        return operand if part == operand.name else Place(operand.name, next(words), str(part))

    return replace(one, operands=tuple(map(read, one.operands)))


class _Registers:
    """Where registers lie in a warp's state."""

    def __init__(self, entry: Entry):
        self.entry = entry
        self.own: dict[str, int] = {}  # those that live between blocks → their places
        self.size = WARP["registers"]
        self._bits: dict[str, int] = {}
        self._known: dict[str, tuple[int, int]] = {}  # what `of` has to say
        self._here: set[str] = set()  # those of the block
        self._free: dict[int, list[int]] = {}  # places by size
        self._last: list[list[str]] = []  # registers that each instruction of the block is the last to have

    def share(self, found: Flow, everything: bool) -> None:
        """Gives a place to each register that lives between blocks, or to all."""
        names: set[str] = set().union(*found.live_in, *found.live_out)
        if everything:
            for block in found.blocks:
                for one in block.body:
                    names.update(one.writes)
        for name in sorted(names):
            bits = self.bits(name)
            if bits:
                self.own[name] = self._new(bits)

    def enter(self, block: Block) -> None:
        """Begins with a block, whose own registers share places."""
        for name in sorted(self._here):
            self._release(name)
        last: dict[str, int] = {}
        for number, one in enumerate(block.body):
            for name in one.reads:
                last[name] = number
            for name in one.writes:
                last[name] = number
        ending = block.ending
        for name in ending.reads if ending is not None else ():
            last.pop(name, None)
        self._last = [[] for _ in block.body]
        for name, number in last.items():
            if name not in self.own:
                self._last[number].append(name)

    def leave(self, number: int) -> None:
        """An instruction of the block is done: the places of what no later one has are free."""
        for name in self._last[number]:
            if name in self._here:
                self._release(name)

    def _release(self, name: str) -> None:
        place, bits = self._known.pop(name)
        self._free.setdefault(_room(bits), []).append(place)
        self._here.remove(name)

    def declare(self, name: str, size: int) -> None:
        """A register that the text does not declare, of so many bytes."""
        self._bits[name] = 8 * size

    def of(self, name: str) -> tuple[int, int]:
        """The place of a register and its bits: 1 for a predicate, 0 for what is none that the text declares."""
        found = self._known.get(name)
        if found is None:
            bits = self._bits[name] if name in self._bits else self.bits(name)
            place = self.own.get(name, 0)
            if not place and bits:
                free = self._free.get(_room(bits))
                place = free.pop() if free else self._new(bits)
                self._here.add(name)
            found = self._known[name] = place, bits
        return found

    def bits(self, name: str) -> int:
        """The bits of a register, as `of` has them."""
        kind = self.entry.type_of(name)
        found = self._bits[name] = 0 if kind is None else 8 * SIZES[kind] or 1
        return found

    def _new(self, bits: int) -> int:
        place = self.size
        self.size += _room(bits)
        return place


def _room(bits: int) -> int:
    """Bytes of a register of all lanes, in lines of the cache."""
    return max(bits * LANES // 8, 64)


def _signed(value: int) -> int:
    """The low 64 bits of a number as they fit into a word."""
    value &= _WORD
    return value - (value >> 63 << 64)


def _first_line(block: Block) -> tuple[int, int]:
    """File and line of the first instruction that has one."""
    instructions = (*block.body, *((block.ending,) if block.ending else ()))
    return next((one.loc for one in instructions if one.loc[1]), (0, 0))


def _ends(block: Block) -> bool:
    """Whether threads end in a block."""
    if block.ending is not None and block.ending.parts[0] in ("ret", "exit", "trap"):
        return True
    return block.follow == EXIT and (block.ending is None or bool(block.ending.guard) or is_barrier(block.ending))


def _symbols(operands: tuple[Operand, ...]) -> set[str]:
    found: set[str] = set()
    for operand in operands:
        if isinstance(operand, Symbol):
            found.add(operand.name)
        elif isinstance(operand, Address):
            found |= _symbols((operand.base,))
        elif isinstance(operand, Group):
            found |= _symbols(operand.items)
    return found
