"""PTX text to a `Module`: functions with their instructions, registers and variables. Nothing is executed or changed.

The grammar is that of the PTX ISA, as far as compilers print it: statements end with `;`, an instruction is an optional
guard (`@%p1`), an opcode with its suffixes and its operands. `.loc` gives each instruction the line of the source that
it came from. Whatever is not understood raises `PtxError` with the line of the text, as a driver's log would.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from engine.errors import Error

SIZES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip
MAX_VARIABLE = 1 << 34  # bytes
_SPACES = ("global", "const", "shared", "local", "param", "reg")
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d+(?:[eE][+-]?\d+)?|\d+U?)
      | (?P<name>\.?[A-Za-z_$%][\w$]*(?:(?:::|\.)[A-Za-z0-9_]+)*|_(?=\s*[,|);\]}]))
      | (?P<mark>[@!;:,(){}\[\]<>=+\-|])""",
    re.VERBOSE | re.DOTALL,
)


# A line that is one instruction, as compilers write it: guard, opcode, operands. It is read in a tenth of the time
_LINE = re.compile(r"[ \t]*(?:@(!?)(%[\w$]+)[ \t]+)?([a-z]\w*(?:(?:\.|::)\w+)*)[ \t]*([ \t][^;@\"/():\n]*)?;[ \t]*\n")
_LOC = re.compile(r"[ \t]*\.loc[ \t]+(\d+)[ \t]+(\d+)[ \t]+\d+[ \t]*\n")
_REGISTER = re.compile(r"%[\w$]+(?:\.\w+)*")
_COMMA = re.compile(r",[ \t]*(?![^{]*\})")  # not within braces
_LINE_ENDS = frozenset(";{}:")  # what stands before a new statement
T = TypeVar("T")


def _pieces(text: str) -> list[str]:
    """Operands, apart."""
    return [piece.strip() for piece in (_COMMA.split(text) if "{" in text else text.split(","))]


class PtxError(Error, ValueError):
    """PTX that is malformed, or uses what this reader does not know. `line` counts from 1 in the text."""

    def __init__(self, line: int, reason: str):
        self.line, self.reason = line, reason
        super().__init__(f"ptx line {line}: {reason}")


@dataclass(frozen=True)
class Reg:
    """A register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Imm:
    """A constant: an integer, or the bits of a float as the text gives them (32 or 64 bits wide)."""

    value: int
    bits: int = 0  # 0: an integer; 32 or 64: a float's bits


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or parameter, or a label or function."""

    name: str


@dataclass(frozen=True)
class Address:
    """`[base + offset]`."""

    base: Reg | Symbol | Imm
    offset: int


@dataclass(frozen=True)
class Group:
    """`{a, b, …}` of a vector access, or `p|q`, the two results of one instruction."""

    items: tuple[Operand, ...]
    pair: bool = False


Operand = Reg | Imm | Symbol | Address | Group
_NO_RESULT = frozenset(("st", "red", "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "membar", "fence",
                        "nanosleep", "prefetch", "prefetchu", "call", "cp", "discard", "applypriority", "brkpt",
                        "pmevent"))  # fmt: skip
_opcodes: dict[str, tuple[tuple[str, ...], bool]] = {}  # their parts, and whether they have a result


def registers(operand: Operand) -> tuple[str, ...]:
    """The registers in an operand, without the `!` of a negated predicate."""
    if isinstance(operand, Reg):
        name = operand.name
        return (name[1:] if name[:1] == "!" else name,)
    if isinstance(operand, Address):
        return registers(operand.base)
    if isinstance(operand, Group):
        return tuple(name for item in operand.items for name in registers(item))
    return ()


@dataclass(slots=True)
class Instruction:
    """One instruction, which nobody changes. `loc` is (file number, line) of the source, or (0, 0)."""

    line: int
    opcode: str
    operands: tuple[Operand, ...]
    guard: str = ""
    negated: bool = False
    loc: tuple[int, int] = (0, 0)
    parts: tuple[str, ...] = field(init=False)  # the opcode and its suffixes
    writes: tuple[str, ...] = field(init=False)  # registers
    reads: tuple[str, ...] = field(init=False)  # under a guard also what it writes, which some lanes keep

    def __post_init__(self) -> None:
        found = _opcodes.get(self.opcode)
        if found is None:
            parts = tuple(self.opcode.split("."))
            found = _opcodes[self.opcode] = parts, parts[0] not in _NO_RESULT
        self.parts, has_result = found
        names = [registers(operand) if type(operand) is not Imm else () for operand in self.operands]
        self.writes = ()
        if has_result and names:
            self.writes = names.pop(0)
            if "_" in self.writes:
                self.writes = tuple(name for name in self.writes if name != "_")
        self.reads = tuple([name for each in names for name in each])
        if self.guard:
            self.reads += (self.guard, *self.writes)


@dataclass(frozen=True)
class Variable:
    """Memory with a name. `initial` is what it holds; symbols in it are (offset, name)."""

    name: str
    space: str
    align: int
    size: int
    initial: bytes = b""
    symbols: tuple[tuple[int, str], ...] = ()


@dataclass
class Entry:
    """A kernel (`is_kernel`) or a device function."""

    name: str
    line: int
    is_kernel: bool
    params: list[Variable] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name → type
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)  # prefix → (type, count): `%r<count>`
    variables: list[Variable] = field(default_factory=list)  # shared and local
    body: list[Instruction | str] = field(default_factory=list)  # a str is a label
    targets: dict[str, list[str]] = field(default_factory=dict)  # `.branchtargets`
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)  # "maxntid": (256,), …

    def type_of(self, register: str) -> str | None:
        """The declared type of a register, or None."""
        found = self.registers.get(register)
        if found is None:
            prefix = register.rstrip("0123456789")
            digits = register[len(prefix) :]
            if digits and prefix in self.ranges and int(digits) < self.ranges[prefix][1]:
                found = self.registers[register] = self.ranges[prefix][0]
        return found


@dataclass
class Module:
    """A PTX file."""

    version: str = ""
    target: str = ""
    functions: dict[str, Entry] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)  # global and const
    externs: set[str] = field(default_factory=set)  # functions that are declared only
    files: dict[int, str] = field(default_factory=dict)


def parse(text: str) -> Module:
    """The module that the text describes. Raises `PtxError` with the line for anything that is not PTX."""
    try:
        return _Parser(text).module()
    except RecursionError:
        raise PtxError(1, "braces are nested too deeply") from None


class _Parser:
    def __init__(self, text: str):
        self.tokens: list[str] = []
        self.lines: list[int] = []
        self.whole: dict[int, re.Match[str]] = {}  # number of a token that is a line → what `_LINE` or `_LOC` found
        self._split(text)
        self.at = 0
        self.found = Module()
        self.loc = (0, 0)
        self.scopes: list[dict[str, str]] = []  # names declared in inner braces → their unique names
        self.unique = 0
        self.known: dict[str, Operand] = {}  # operands by their text, outside of such braces

    def _split(self, text: str) -> None:
        position, line = 0, 1
        tokens, lines = self.tokens, self.lines
        whole = "/*" not in text  # else a line may be within a comment
        while True:
            if whole and tokens and (tokens[-1] in _LINE_ENDS or len(tokens) - 1 in self.whole):
                while found := _LINE.match(text, position) or _LOC.match(text, position):
                    self.whole[len(tokens)] = found
                    tokens.append(found[0].strip())
                    lines.append(line)
                    line += 1
                    position = found.end()
            match = _TOKEN.match(text, position)
            if match is None or text[position] == "\0":
                break
            position = match.end()
            if match.lastgroup != "skip":
                tokens.append(match.group())
                lines.append(line)
            else:
                line += match.group().count("\n")
        if text[position:].strip("\0 \n"):  # drivers take a C string, with a zero behind it
            raise PtxError(line, f"unexpected character {text[position]!r}")
        self.tokens += ["", ""]  # one may look at the token behind the last
        self.lines += [line, line]

    def line(self, entry: Entry, found: re.Match[str]) -> None:
        """What is one line."""
        if found.re is _LOC:
            self.loc = (int(found[1]), int(found[2]))
            return
        negated, guard, opcode, text = found.groups()
        operands = None if self.scopes else self.pieces(entry, text)  # in an inner scope names have other meanings
        if operands is None:
            self._spelled(found[0], lambda: self.instruction(entry))
            return
        line = self.lines[self.at - 1]
        entry.body.append(Instruction(line, opcode, operands, guard or "", bool(negated), self.loc))

    def pieces(self, entry: Entry, text: str | None) -> tuple[Operand, ...] | None:
        """The operands of a line; None where something is wrong with them, which `instruction` can say."""
        try:
            known = self.known
            return tuple([known.get(one) or self.piece(entry, one) for one in _pieces(text)]) if text else ()
        except PtxError:
            return None

    def piece(self, entry: Entry, text: str) -> Operand:
        """An operand of a line, which is then known."""
        found = Reg(text) if _REGISTER.fullmatch(text) else self._spelled(text, lambda: self.operand(entry))
        self.known[text] = found
        return found

    def _spelled(self, text: str, read: Callable[[], T]) -> T:
        """What a method reads from a part of a line."""
        kept = self.tokens, self.lines, self.at
        line = self.lines[self.at - 1]
        self.tokens = [match.group() for match in _TOKEN.finditer(text) if match.lastgroup != "skip"]
        self.lines = [line] * (len(self.tokens) + 2)
        self.tokens += ["", ""]
        self.at = 0
        try:
            found = read()
            if self.token:
                self.fail(f"unexpected {self.token!r}")
        finally:
            self.tokens, self.lines, self.at = kept
        return found

    # tokens

    def fail(self, reason: str) -> NoReturn:
        raise PtxError(self.lines[min(self.at, len(self.lines) - 1)], reason)

    @property
    def token(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        token = self.tokens[self.at]
        if not token:
            self.fail("the text ends in the middle of a statement")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected '{token}', found {self.token or 'the end'!r}")

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        found = self.number(self.take())
        if found.bits:
            self.fail("expected an integer")
        return sign * found.value

    def number(self, token: str) -> Imm:
        head = token[:2].lower()
        try:
            if head in ("0f", "0d"):
                return Imm(int(token[2:], 16), 32 if head == "0f" else 64)
            if "." in token:
                return Imm(struct.unpack("<Q", struct.pack("<d", float(token)))[0], 64)
            return Imm(int(token.rstrip("U"), 16 if head == "0x" else 10))
        except ValueError:
            self.fail(f"expected a number, found {token!r}")

    def name(self) -> str:
        token = self.take()
        if not (token[0].isalpha() or token[0] in "_$%"):
            self.fail(f"expected a name, found {token!r}")
        return token

    def type(self) -> str:
        token = self.take()
        if not token.startswith(".") or token[1:] not in SIZES:
            self.fail(f"expected a type, found {token!r}")
        return token[1:]

    # the module

    def module(self) -> Module:
        while self.token:
            self.statement()
        if not self.found.version:
            self.fail("there is no .version")
        return self.found

    def statement(self) -> None:
        token = self.take()
        simple: dict[str, Callable[[], None]] = {
            ".version": self.version, ".target": self.target, ".address_size": self.address_size, ".file": self.file,
            ".section": self.section, ".pragma": lambda: self.skip(";"), ";": lambda: None,
        }  # fmt: skip
        if token in simple:
            simple[token]()
            return
        external = False
        while token in (".visible", ".extern", ".weak", ".common"):
            external |= token == ".extern"
            token = self.take()
        if token in (".entry", ".func"):
            self.function(token == ".entry", external)
        elif token[1:] in _SPACES and token[0] == ".":
            for variable in self.variables(token[1:]):
                self.found.variables[variable.name] = variable
        else:
            self.at -= 1
            self.fail(f"unexpected {token!r}")

    def version(self) -> None:
        self.found.version = self.take()

    def target(self) -> None:
        self.found.target = self.take()
        while self.accept(","):
            self.take()

    def address_size(self) -> None:
        if self.integer() != 64:
            self.fail("only .address_size 64 is supported")

    def file(self) -> None:
        number = self.integer()
        self.found.files[number] = self.take()[1:-1]
        while self.accept(","):
            self.take()

    def section(self) -> None:
        """Debug information: its content is of no use here."""
        self.take()
        self.skip("}")

    def skip(self, end: str) -> None:
        while self.take() != end:
            pass

    def variables(self, space: str, in_body: bool = False) -> list[Variable]:
        """What follows a state space: attributes, a type and names, up to `;`, or one name in a list of parameters."""
        align = 0
        while self.token in (".align", ".ptr", ".attribute"):
            if self.take() == ".align":
                align = self.integer()
        width = 1
        if self.token in (".v2", ".v4"):
            width = int(self.take()[2:])
        kind = self.type()
        while self.token in (".ptr", ".align") or (self.token[:1] == "." and self.token[1:] in _SPACES):
            if self.take() == ".align":
                self.integer()  # alignment of what a pointer parameter points to
        found = []
        while True:
            found.append(self.variable(space, kind, width, align))
            if space == "param" and not in_body or not self.accept(","):
                break
        if space != "param" or in_body:
            self.expect(";")
        return found

    def variable(self, space: str, kind: str, width: int, align: int) -> Variable:
        name = self.name()
        each = SIZES[kind] * width or 1
        count = 1
        while self.accept("["):
            count *= 0 if self.token == "]" else self.integer()
            self.expect("]")
        initial, symbols = b"", []
        if self.accept("="):
            values = self.initialiser()
            for position, value in enumerate(values):
                if isinstance(value, Symbol):
                    symbols.append((position * SIZES[kind], value.name))
                    initial += bytes(SIZES[kind])
                else:
                    initial += self.stored(value, kind)
            count = max(count, -(-len(initial) // each))
        if each * count > MAX_VARIABLE or align & (align - 1) or align > 1 << 16:
            self.fail(f"'{name}' has {each * count} bytes aligned to {align or each}, which no GPU has")
        return Variable(name, space, align or each, each * count, initial, tuple(symbols))

    def initialiser(self) -> list[Imm | Symbol]:
        if not self.accept("{"):
            if self.token[:1].isdigit() or self.token == "-":
                sign = -1 if self.accept("-") else 1
                found = self.number(self.take())
                return [replace(found, value=sign * found.value)]
            name = self.name()
            if name == "generic":
                self.expect("(")
                name = self.name()
                self.expect(")")
            return [Symbol(name)]
        values: list[Imm | Symbol] = []
        while not self.accept("}"):
            values += self.initialiser()
            self.accept(",")
        return values

    def stored(self, value: Imm, kind: str) -> bytes:
        size = SIZES[kind]
        if value.bits and value.bits != 8 * size:
            self.fail(f"a float of {value.bits} bits for a .{kind}")
        return (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    # functions

    def function(self, is_kernel: bool, external: bool) -> None:
        line = self.lines[self.at - 1]
        if not is_kernel and self.token == "(":
            self.parameters()  # the result
        entry = Entry(self.name(), line, is_kernel)
        if self.token == "(":
            entry.params = self.parameters()
        while self.token and self.token not in ("{", ";"):
            directive = self.take()
            if directive[1:] in ("maxntid", "reqntid", "minnctapersm", "maxnctapersm", "maxnreg"):
                values = [self.integer()]
                while self.accept(","):
                    values.append(self.integer())
                entry.limits[directive[1:]] = tuple(values)
            elif directive == ".pragma":
                self.skip(";")
            elif directive != ".noreturn":
                self.at -= 1
                self.fail(f"unexpected {directive!r}")
        if self.accept(";") or external:
            self.found.externs.add(entry.name)
            return
        self.expect("{")
        self.scopes, self.loc, self.known = [], (0, 0), {}
        self.block(entry)
        self.found.functions[entry.name] = entry

    def parameters(self) -> list[Variable]:
        self.expect("(")
        found: list[Variable] = []
        while not self.accept(")"):
            token = self.take()
            if token not in (".param", ".reg"):
                self.at -= 1
                self.fail(f"expected '.param', found {token!r}")
            found += self.variables("param")
            self.accept(",")
        return found

    def block(self, entry: Entry) -> None:
        """Statements up to the closing brace; names that an inner brace declares hold in it only."""
        while not self.accept("}"):
            token = self.token
            if self.at in self.whole:
                self.at += 1
                self.line(entry, self.whole[self.at - 1])
            elif token == "{":
                self.at += 1
                self.scopes.append({})
                self.block(entry)
                self.scopes.pop()
            elif token.startswith("."):
                self.directive(entry)
            elif token == ";":
                self.at += 1
            elif token not in ("@",) and self.tokens[self.at + 1] == ":":
                self.label(entry)
            else:
                self.instruction(entry)

    def label(self, entry: Entry) -> None:
        label = self.name()
        self.expect(":")
        if self.token == ".branchtargets":
            self.at += 1
            entry.targets[label] = [self.name()]
            while self.accept(","):
                entry.targets[label].append(self.name())
            self.expect(";")
        elif self.token == ".callprototype":
            self.skip(";")
        else:
            entry.body.append(label)

    def directive(self, entry: Entry) -> None:
        token = self.take()
        if token == ".reg":
            self.registers(entry)
        elif token == ".loc":
            self.loc = (self.integer(), self.integer())
            self.integer()
            while self.accept(","):  # function_name …, inlined_at file line column
                what = self.take()
                if what == "function_name":
                    self.take()
                    if self.accept("+"):
                        self.take()
                else:
                    self.integer(), self.integer(), self.integer()
        elif token[1:] in ("shared", "local", "param"):
            for variable in self.variables(token[1:], in_body=True):
                entry.variables.append(replace(variable, name=self.declare(variable.name)))
        elif token == ".pragma":
            self.skip(";")
        else:
            self.at -= 1
            self.fail(f"unexpected {token!r}")

    def registers(self, entry: Entry) -> None:
        kind = self.type()
        while True:
            name = self.name()
            if self.accept("<"):
                entry.ranges[name] = (kind, self.integer())
                self.expect(">")
            else:
                entry.registers[self.declare(name)] = kind
            if not self.accept(","):
                break
        self.expect(";")

    def declare(self, name: str) -> str:
        if not self.scopes:
            return name
        self.unique += 1
        self.scopes[-1][name] = unique = f"{name}#{self.unique}"
        return unique

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    # instructions

    def instruction(self, entry: Entry) -> None:
        line = self.lines[self.at]
        guard, negated = "", False
        if self.accept("@"):
            negated = self.accept("!")
            guard = self.resolve(self.name())
        opcode = self.name()
        operands: list[Operand] = []
        while not self.accept(";"):
            if operands:
                self.expect(",")
            operands.append(self.operand(entry))
        entry.body.append(Instruction(line, opcode, tuple(operands), guard, negated, self.loc))

    def operand(self, entry: Entry) -> Operand:
        token = self.take()
        if token == "[":
            return self.address(entry)
        if token in ("{", "("):
            items = []
            while not self.accept("}" if token == "{" else ")"):
                items.append(self.operand(entry))
                self.accept(",")
            return Group(tuple(items))
        if token == "-":
            found = self.number(self.take())
            return replace(found, value=-found.value)
        if token == "!":  # a negated predicate operand
            return Reg("!" + self.resolve(self.name()))
        if token[0].isdigit():
            return self.number(token)
        if not (token[0].isalpha() or token[0] in "_$%"):
            self.at -= 1
            self.fail(f"expected an operand, found {token!r}")
        first = self.named(entry, token)
        if self.accept("|"):
            return Group((first, self.named(entry, self.name())), pair=True)
        return first

    def named(self, entry: Entry, token: str) -> Reg | Symbol:
        name = self.resolve(token)
        if name.startswith("%") or name == "_" or entry.type_of(name) is not None:
            return Reg(name)
        return Symbol(name)

    def address(self, entry: Entry) -> Address:
        token = self.take()
        base: Reg | Symbol | Imm
        if token[0].isdigit() or token == "-":
            if token == "-":
                self.fail("an address cannot be negative")
            base = self.number(token)
        else:
            base = self.named(entry, token)
        offset = 0
        while not self.accept("]"):
            sign = -1 if self.take() == "-" else 1
            offset += sign * self.integer()
        if not -(1 << 31) <= offset < 1 << 31:
            self.fail(f"the offset {offset} does not fit into 32 bits")
        return Address(base, offset)
