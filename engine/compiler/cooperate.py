"""Gives the threads of a GPU's block their share of a kernel that works on tiles (MIR to MIR).

Before, a thread of the launch does the whole of its tiles; after, the threads of a block do it together, as if they
were that one thread:

    independent loops      their rounds are spread over the threads (`cooperate_nests`)
    tiles                  lie in memory of the block, packed by when they are needed (`cooperate_memory`)
    stores, atomics, prints, loads of what the kernel writes, loops around them: one thread alone does them, and what
                           others need of it (values, variables) goes to them through memory of the block
    all else               every thread computes the same for itself, so that all take the same branches

    t[0] = x                          if thread == 0: t[0] = x
    n = atomic_add(a, 0, 1)     →         n' = atomic_add(a, 0, 1); passed[0] = n'
    for i each: y[i] = t[i] + n       barrier; n = passed[0]
                                      for i in thread, thread + threads, …: y[i] = t[i] + n

Nothing but the order in which independent rounds run is changed, so results keep their bits, whatever the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.compiler.cooperate_memory import add_barriers, pack_memory, root_of
from engine.compiler.cooperate_nests import EFFECTS, NestWriter, is_shared
from engine.compiler.emit_ptx import Sharing, unchanged_pointers
from engine.compiler.emit_thread import WARP
from engine.compiler.ir import Function, Op, Region, scalar_type
from engine.compiler.ops import needs_block
from engine.compiler.target_ptx import MAX_THREADS
from engine.compiler.types import LocalArray, Pointer, Scalar, bool_, int32, pointer, uint64, void

SHARED = {"shared": True, "unset": True}


def cooperate(fn: Function, room: int) -> tuple[Function, Sharing] | None:
    """The kernel for blocks of threads, each of which does what one thread did. `fn` is not changed.

    None for a kernel without independent loops, or whose tiles take more than `room` bytes of the block's memory.
    """
    writer = _Writer(fn)
    if not any(map(is_shared, writer.joint)) or any(map(needs_block, fn.body.walk())):
        return None
    body = writer.body()
    size = pack_memory(body, writer.alone, writer.nests)
    if size > room:
        return None
    add_barriers(body, writer.alone, writer.nests, writer.unchanged)
    widest = max(nest.most_rounds for nest in writer.nests.values())
    sharing = Sharing(min(-(-widest // WARP) * WARP, MAX_THREADS), size)
    return Function(fn.name, fn.params, body, fn.result, fn.file, fn.line, fn.is_kernel), sharing


class _Writer:
    def __init__(self, fn: Function):
        self.fn = fn
        self.unchanged = set(unchanged_pointers(fn))
        self.values: dict[Op, Op] = {p: p for p in fn.params}
        self.writes = any(_writes_arrays(op) for op in fn.body.walk())
        self.users: dict[Op, list[Op]] = {}
        for op in fn.body.walk():
            for v in (*op.operands, op.attrs.get("exit")):
                if v is not None:
                    self.users.setdefault(v, []).append(op)
        self.joint: set[Op] = set()  # what threads do together, and all that has it inside
        self.mark(fn.body)
        self.shared: set[Op] = set()  # local arrays in the block's memory
        self.nests: dict[Op, NestWriter] = {}
        self.alone: set[Op] = set()
        one, zero = (Op("const", int32, (), {"value": n}) for n in (1, 0))
        self.threads = Op("block_value", int32, (one,), {"name": "block_dim"})
        self.thread = Op("block_value", int32, (self.threads,), {"name": "thread_id"})
        self.first = Op("eq", bool_, (self.thread, zero))
        self.head = [one, zero, self.threads, self.thread, self.first]

    # what is what

    def mark(self, region: Region) -> bool:
        """Fills `joint`; whether the region has any."""
        found = False
        for op in region.ops:
            is_joint = is_shared(op)
            if not is_joint:
                for inner in op.regions:
                    is_joint |= self.mark(inner)
            if is_joint:
                self.joint.add(op)
            found |= is_joint
        return found

    def level(self, region: Region) -> Iterator[Op]:
        """The ops that all threads come to: not those inside of what they share or what one of them does."""
        for op in region.ops:
            yield op
            if op in self.joint and not is_shared(op):
                for inner in op.regions:
                    yield from self.level(inner)

    def choose_memory(self) -> None:
        """Which local arrays the block has in common: tiles, what others may point to, and what one thread alone fills.

        Other arrays are the same in all threads, each of which has its own.
        """
        arrays = [op for op in self.level(self.fn.body) if op.kind == "local"]
        self.shared = {op for op in arrays if op.attrs.get("tile") or op.attrs.get("exposed")}
        rest = [op for op in arrays if op not in self.shared]
        while True:
            lonely = [inner for run in self.runs() for op in self.span(run) for inner in (op, *_below(op))]
            places = {op: {inner for inner in lonely if op in inner.operands[:1]} for op in rest}
            more = {op for op in rest if any(x.kind == "local_store" for x in places[op])
                    and not places[op].issuperset(self.users.get(op, ()))}  # fmt: skip
            if not more:
                return
            self.shared |= more
            rest = [op for op in rest if op not in more]

    def runs(self) -> Iterator[list[Op]]:
        """The ops between what threads do together."""
        regions = [self.fn.body]
        while regions:
            region = regions.pop()
            run: list[Op] = []
            for op in region.ops:
                if self.is_cut(op):
                    yield run
                    run = []
                    if op in self.joint and not is_shared(op):
                        regions += op.regions
                else:
                    run.append(op)
            yield run

    def is_cut(self, op: Op) -> bool:
        zeroed = op in self.shared and not op.attrs.keys() & {"filled", "unset"}
        return op in self.joint or zeroed or op.kind in ("condition", "index")

    def span(self, run: list[Op]) -> list[Op]:
        """From the first to the last op of a run that one thread has to do."""
        at = [k for k, op in enumerate(run) if self.is_lonely(op)]
        return run[at[0] : at[-1] + 1] if at else []

    def is_lonely(self, op: Op) -> bool:
        """Whether one thread has to do it, or something in it."""
        if op.kind in EFFECTS:
            return True
        if op.kind == "local_store":
            return op.operands[0] in self.shared
        if op.kind == "load":
            return self.writes and not self.is_steady(op.operands[0])
        return any(self.is_lonely(inner) for region in op.regions for inner in region.ops)

    def is_steady(self, p: Op) -> bool:
        """Whether all threads read the same through a pointer: nobody writes there but this block."""
        root = root_of(p)
        return root is not None and (root in self.unchanged or root.kind == "local")

    # writing

    def body(self) -> Region:
        self.choose_memory()
        return Region([*self.head, *self.region(self.fn.body.ops)])

    def region(self, ops: Sequence[Op]) -> list[Op]:
        out: list[Op] = []
        run: list[Op] = []
        for op in ops:
            if not self.is_cut(op):
                run.append(op)
                continue
            self.straight(run, out)
            run = []
            if is_shared(op):
                self.share(op, out)
            elif op.kind == "local":
                out.append(self.copy(op))
                self.clear(op, out)
            else:
                out.append(self.copy(op))
        self.straight(run, out)
        return out

    def copy(self, op: Op) -> Op:
        """The op with new operands; regions with shared loops are written anew, too."""
        attrs = op.attrs
        if attrs.get("exit") is not None:
            attrs = {**attrs, "exit": self.values[attrs["exit"]]}
        if op in self.shared:
            attrs = {**attrs, **SHARED}
        new = self.values[op] = Op(op.kind, op.type, tuple([self.values[v] for v in op.operands]), attrs, (), op.loc)
        write = self.region if op in self.joint else self.copies
        new.regions = tuple([Region(write(region.ops)) for region in op.regions])
        return new

    def copies(self, ops: Sequence[Op]) -> list[Op]:
        return [self.copy(op) for op in ops]

    def share(self, op: Op, out: list[Op]) -> None:
        nest = NestWriter(op, self.values, self.thread, self.threads)
        out += nest.write()
        self.nests[out[-1]] = nest

    def clear(self, op: Op, out: list[Op]) -> None:
        """Zeroes a tile."""
        assert isinstance(op.type, LocalArray) and isinstance(op.type.dtype, Scalar)
        zero, end, one = (Op("const", int32, (), {"value": n}) for n in (0, op.type.size, 1))
        kind = {"b": bool, "f": float}.get(op.type.dtype.kind, int)
        nothing = Op("const", op.type.dtype, (), {"value": kind()})
        index = Op("index", int32)
        body = Region([index, Op("local_store", void, (op, index, nothing))])
        loop = Op("for", void, (zero, end, one), {"each": 0}, (body,), op.loc)
        constants = [zero, end, one, nothing]
        out += self.copies(constants)
        self.share(loop, out)

    def straight(self, run: list[Op], out: list[Op]) -> None:
        """Ops that each thread does for itself, and among them those that one of them does."""
        alone = self.span(run)
        if not alone:
            out += self.copies(run)
            return
        at = run.index(alone[0])
        out += self.copies(run[:at])
        places = [op for op in alone if op.kind in ("slot", "local", "const")]
        out += self.copies(places)
        self.do_alone([op for op in alone if op not in places], out)
        out += self.copies(run[at + len(alone) :])

    def do_alone(self, ops: list[Op], out: list[Op]) -> None:
        """`if thread == 0: …`; values and variables that are read elsewhere are passed on."""
        inside = dict.fromkeys(inner for op in ops for inner in (op, *_below(op)))
        results = [op for op in ops if any(user not in inside for user in self.users.get(op, ()))]
        slots = [
            slot for slot in dict.fromkeys(op.operands[0] for op in inside if op.kind == "set")
            if any(user not in inside and user.kind != "set" for user in self.users[slot])
        ]  # fmt: skip
        body = self.copies(ops)
        passed = []
        for slot in slots:
            body.append(Op("get", slot.type, (self.values[slot],)))
            passed.append(self.send(body[-1], body, out))
        for op in results:
            passed.append(self.send(self.values[op], body, out))
        section = Op("if", void, (self.first,), None, (Region(body), Region()), ops[0].loc)
        self.alone.add(section)
        out.append(section)
        received = [self.receive(memory, v.type, out) for memory, v in zip(passed, (*slots, *results), strict=True)]
        for slot, value in zip(slots, received, strict=False):
            out.append(Op("set", void, (self.values[slot], value)))
        for op, value in zip(results, received[len(slots) :], strict=True):
            self.values[op] = value

    def send(self, value: Op, body: list[Op], out: list[Op]) -> Op:
        """Writes a value of the one thread to memory of the block, which is returned."""
        if isinstance(value.type, Pointer):
            body.append(value := Op("pointer_to_int", uint64, (value,)))
        memory = Op("local", LocalArray(value.type, (1,)), (), SHARED)
        zero = Op("const", int32, (), {"value": 0})
        out += [memory, zero]
        body.append(Op("local_store", void, (memory, zero, value)))
        return memory

    @staticmethod
    def receive(memory: Op, t: object, out: list[Op]) -> Op:
        zero = Op("const", int32, (), {"value": 0})
        value = Op("local_load", scalar_type(memory), (memory, zero))
        out += [zero, value]
        if isinstance(t, Pointer):
            out.append(value := Op("int_to_pointer", pointer, (value,)))
        return value


def _below(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from region.walk()


def _writes_arrays(op: Op) -> bool:
    """Whether it writes to memory that does not belong to this block."""
    if op.kind not in ("store", "atomic"):
        return False
    root = root_of(op.operands[0])
    return root is None or root.kind != "local"
