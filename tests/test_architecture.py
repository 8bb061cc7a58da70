"""The layers of the engine, its budgets and its house rules, each as a test over the source files."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# level of each file and folder directly below engine/: what is on a level may use its own folder and the levels below
LEVELS = {
    "errors": 0,  # the error classes
    "config": 0,  # knobs
    "plugin": 0,  # registries
    "timer": 0,  # timed scopes
    "replace_file": 0,  # atomic output files
    "compiler": 1,  # Python function -> typed IR -> LLVM -> object code, PTX
    "context": 2,  # devices, memory, arrays, launches
    "stream": 3,  # public face of streams, events, graphs
    "debug": 3,  # stage dumps, explain, reports
    "kernels": 4,  # launched algorithms that two or more folders use
    "state": 5,  # the one struct-of-arrays state
    "geom": 6,  # shapes, broad and narrow phase, queries
    "volume": 7,  # sparse volumes, signed distance fields of the meshes of geom
    "fwd": 7,  # forward dynamics of articulations
    "sim": 8,  # builder, importers, solvers, frames out
    "render": 9,  # reads the state
    "audio": 9,  # reads the state
    "bench": 9,  # benchmark recipes: they drive sim and read the state
    "cli": 10,  # the command
    "__init__": 10,  # public names, and thin modules of them
    "__main__": 10,
    "utils": 10,
    "types": 10,
    "optim": 10,
    "autograd": 10,
    "geometry": 10,
}
PEERS_MAY_IMPORT_EACH_OTHER = {0, 10}  # single files rather than folders

# which files may import a package; None: any single file
CONFINED = {
    "pxr": ("engine/sim/scene_usd", "engine/sim/frames_usd"),
    "llvmlite": ("engine/compiler/emit_", "engine/compiler/target_"),
    "cuda": ("engine/context/device_cuda.py", "engine/context/emulator/calls.py"),
    "mujoco": ("engine/sim/scene_mjcf",),
    "rapier3d": ("engine/bench/peer_rapier.py",),
    "z3": ("engine/compiler/audit/solver.py",),
    "pyglet": None,
    "trimesh": None,
    "scipy": None,
}
HEAVY = (*(name for name in CONFINED if name != "llvmlite"), "networkx", "rich", "typer", "platformdirs")

FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc"}
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80


@cache
def sources(*folders: str) -> dict[str, ast.Module]:
    """Parsed Python files below `folders` by their path from the root."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(), str(path)) for path in paths}


def engine_sources() -> dict[str, ast.Module]:
    return sources("engine")


def all_sources() -> dict[str, ast.Module]:
    return sources("engine", "tests", "scenes", "benchmarks")


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def unit(module: str) -> str:
    """The file or folder below engine/ that a module belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def walk(node: ast.AST, with_type_checking: bool) -> Iterator[ast.AST]:
    if is_type_checking(node) and not with_type_checking:
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from walk(child, with_type_checking)


def imports(tree: ast.Module, with_type_checking: bool = True) -> Iterator[tuple[int, str]]:
    """(line, imported module) wherever a file imports, functions included; `from m import n` gives both m.n and m."""
    for node in walk(tree, with_type_checking):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def imported_modules(tree: ast.Module, with_type_checking: bool = True) -> Iterator[tuple[int, str]]:
    """(line, module) for each import from the engine: the submodule if there is one of that name, else the module."""
    known = {module_name(path) for path in engine_sources()}
    for line, name in imports(tree, with_type_checking):
        if name.split(".")[0] == "engine":
            yield line, name if name in known else name.rpartition(".")[0] or name


def report(findings: list[str]) -> None:
    assert not findings, "\n  ".join(["", *findings])


def test_every_file_has_a_level():
    report(sorted({f"{path}: no level" for path in engine_sources() if unit(module_name(path)) not in LEVELS}))


def test_no_file_imports_upward():
    findings = []
    for path, tree in engine_sources().items():
        own = unit(module_name(path))
        for line, module in imported_modules(tree):
            other = unit(module)
            peers = LEVELS[own] == LEVELS[other] and LEVELS[own] in PEERS_MAY_IMPORT_EACH_OTHER
            if other != own and not peers and LEVELS[other] >= LEVELS[own]:
                findings.append(f"{path}:{line}: {own} (level {LEVELS[own]}) imports {module} (level {LEVELS[other]})")
    report(findings)


def test_no_import_cycle():
    graph = {
        module_name(path): {module for _, module in imported_modules(tree, with_type_checking=False)}
        for path, tree in engine_sources().items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " -> ".join((*trail[trail.index(module) :], module))
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())


@pytest.mark.parametrize("package", CONFINED)
def test_packages_are_imported_where_they_belong(package):
    roots = {path: {name.split(".")[0] for _, name in imports(tree)} for path, tree in engine_sources().items()}
    users = {path for path, found in roots.items() if package in found}
    allowed = CONFINED[package]
    if allowed is None:
        report(sorted(f"{package} is imported by {path}" for path in users) if len(users) > 1 else [])
    else:
        report(sorted(f"{package} is imported by {path}" for path in users if not path.startswith(allowed)))


def test_files_are_not_long():
    counts = {path: len((ROOT / path).read_text().splitlines()) for path in all_sources()}
    report([f"{path}: {count} lines" for path, count in counts.items() if count > MAX_FILE_LINES])


def test_functions_are_not_long():
    findings = []
    for path, tree in all_sources().items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    findings.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
    report(findings)


def test_names_say_what_is_inside():
    parts = {(path, part) for path in all_sources() for part in Path(path).with_suffix("").parts}
    report(sorted(path for path, part in parts if part in FORBIDDEN_NAMES and path != "engine/utils.py"))


def test_no_star_imports():
    found = [(path, line, name) for path, tree in all_sources().items() for line, name in imports(tree)]
    report([f"{path}:{line}" for path, line, name in found if name.endswith("*")])


def test_every_file_opens_with_its_responsibility():
    report([path for path, tree in all_sources().items() if not ast.get_docstring(tree) and tree.body])


def run_python(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_the_engine_loads_nothing_heavy():
    loaded = run_python("import sys, engine; print(*sys.modules)").split()
    assert "engine" in loaded
    report([name for name in (*HEAVY, "llvmlite.binding") if name in loaded])


def test_importing_reads_and_parses_no_source():
    """@kernel and @func look at their source when they are first compiled, not when their module is imported."""
    modules = [module_name(path) for path in engine_sources() if unit(module_name(path)) not in ("cli", "__main__")]
    run_python(
        "import ast, importlib, inspect, linecache, numpy, dataclasses, typing\n"
        "def refuse(*_, **__): raise AssertionError('source is read at import')\n"
        "inspect.getsource = inspect.getsourcelines = ast.parse = refuse\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
