"""Which names a function assigns and how often: decides what must live in a slot."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field

from engine.compiler.source import statements


@dataclass
class NameUse:
    """Counts over one function body; parameters count as one assignment.

    assigned: name → number of statements that rebind it. mutated: names whose component is assigned (`v.x = …`).
    loop_only: names that only `for` statements rebind.
    """

    assigned: Counter[str] = field(default_factory=Counter)
    mutated: set[str] = field(default_factory=set)
    loop_targets: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, tree: ast.FunctionDef, updating: dict[str, int]) -> NameUse:
        """`updating`: functions that assign an argument, by name, with its position; empty where none is called."""
        use = cls()
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
                case ast.For(target=ast.Name(id=name)):
                    use.assigned[name] += 1
                    use.loop_targets[name] += 1
        if updating:
            for call in ast.walk(tree):
                if isinstance(call, ast.Call) and called_name(call) in updating:
                    for argument in call.args[updating[called_name(call)] :][:1]:
                        use._target(argument)
        return use

    def _target(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.assigned[name] += 1
            case ast.Tuple(elts=elements):
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


def called_name(node: ast.Call) -> str:
    """`f` of `f(…)` and `module.f(…)`, or ""."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
