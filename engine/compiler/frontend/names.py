"""Which names a function assigns and how often: decides what must live in a slot."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from engine.compiler import types
from engine.compiler.function import Func
from engine.compiler.library.registry import Builtin, changed_arguments
from engine.compiler.source import Source
from engine.compiler.source_text import statements


def reference_names(target: Any) -> list[str]:
    """The parameters of a function by position: the name of each that is a reference, "" for the others; [] if none."""
    if not isinstance(target, Func) or not target.has_references:
        return []
    notes = target.overloads[-1].source.annotations
    names = [p.name if isinstance(notes.get(p.name), types.Reference) else "" for p in target.source.parameters]
    return names if any(names) else []


def changed_parameters(target: Any) -> set[int | str]:
    """Positions and names of the parameters that a call of `target` assigns: references, the state of `randf`."""
    if isinstance(target, Builtin):
        lists = [([p.name for p in f.parameters], f.updates) for f in target.overloads if f.updates]
        return {key for names, updates in lists for position in updates for key in (position, names[position])}
    return {key for position, name in enumerate(reference_names(target)) if name for key in (position, name)}


@dataclass
class NameUse:
    """Counts over one function body; parameters count as one assignment.

    assigned: name → number of statements that rebind it. mutated: names whose component is assigned (`v.x = …`).
    loop_targets: name → number of `for` statements among those that rebind it. augmented: name → how much `x += …` has
    added to `assigned`: of a tile it changes the elements and rebinds nothing.
    """

    assigned: Counter[str] = field(default_factory=Counter)
    mutated: set[str] = field(default_factory=set)
    loop_targets: Counter[str] = field(default_factory=Counter)
    augmented: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, tree: ast.FunctionDef, source: Source | None = None) -> NameUse:
        use = cls()
        if source is not None and _may_change_arguments(source):
            use._changes(tree, source)
        for arg in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
            use.assigned[arg.arg] += 1
        for node in statements(tree.body):
            match node:
                case ast.Assign(targets=targets):
                    for target in targets:
                        use._target(target)
                case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                    use._target(target)
                    if isinstance(target, ast.Name) and isinstance(node, ast.AugAssign):
                        use.assigned[target.id] += 1  # reads and rebinds: never the only assignment
                        use.augmented[target.id] += 2
                case ast.For(target=ast.Name(id=name)):
                    use.assigned[name] += 1
                    use.loop_targets[name] += 1
                case ast.For(target=target):
                    use._target(target)
                    use._target(target)
        return use

    def _changes(self, tree: ast.FunctionDef, source: Source) -> None:
        """Names that calls assign: through references, or as the state of a library function such as `randf(state)`."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and (changed := changed_parameters(callee_of(node.func, source))):
                for key, value in (*enumerate(node.args), *((k.arg, k.value) for k in node.keywords)):
                    if key in changed:
                        self._target(value)

    def _target(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.assigned[name] += 1
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self._target(element)
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                while isinstance(value, ast.Attribute | ast.Subscript):
                    value = value.value
                if isinstance(value, ast.Name):
                    self.mutated.add(value.id)

    def needs_slot(self, name: str, by_reference: bool) -> bool:
        """Whether `name` must be a slot: rebound, or (values only) changed in place."""
        plain = self.assigned[name] - self.loop_targets[name]
        if plain == 0:
            return False  # a loop variable: each iteration binds it afresh
        return self.assigned[name] > 1 or (name in self.mutated and not by_reference)

    def rebinds(self, name: str) -> bool:
        """Whether tiles are assigned to this name more than once: it then has memory that assignments fill."""
        return self.assigned[name] - self.loop_targets[name] - self.augmented[name] > 1


def _may_change_arguments(source: Source) -> bool:
    """Whether a call that assigns an argument can be in there: a look at the names only, which takes no time."""
    code = source.fn.__code__
    if Func.references_exist or not changed_arguments().keys().isdisjoint(code.co_names):
        return True
    held = (*(source.fn.__globals__.get(name) for name in code.co_names), *source.captured.values())
    return any(isinstance(value, Builtin) and value.name in changed_arguments() for value in held) or any(
        isinstance(value, ModuleType) and not vars(value).get("_FUNCTIONS", {}).keys().isdisjoint(code.co_names)
        for value in held
    )  # functions that `engine` imports when first used are not known yet


def callee_of(node: ast.expr, source: Source) -> Any:
    """What a call calls, where that can be told before lowering; else None."""
    try:
        if isinstance(node, ast.Name):
            return source.lookup(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(callee_of(node.value, source), node.attr, None)
    except KeyError:
        pass
    return None
