"""What the names of a Python file stand for: imports, and constants that are assigned once."""

import ast
from collections.abc import Iterable, Mapping

_DEEPEST = 20


class ModuleNames:
    """The imports, constants and classes at the top level of a module."""

    def __init__(self, tree: ast.Module, star_names: Mapping[str, frozenset[str]]) -> None:
        """`star_names`: module -> the names that `from module import *` brings, as far as they matter here."""
        self.imports: dict[str, str] = {}
        """Local name -> the name with its module; a relative import has no module that is known here."""
        self.classes: dict[str, ast.ClassDef] = {}
        self._constants: dict[str, ast.expr] = {}
        self._changed: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._read_import(node, star_names)
            elif isinstance(node, ast.Global):
                self._changed.update(node.names)
        for statement in _statements(tree.body):
            if isinstance(statement, ast.ClassDef):
                self.classes[statement.name] = statement
                self._read_assignments(statement.body, f"{statement.name}.")
            else:
                self._read_assignments([statement], "")

    def resolve(self, name: str, hidden: Iterable[str] = (), of_class: str = "") -> ast.expr | str:
        """Return the expression that a dotted name stands for, or else the name with its module.

        `hidden`: names that mean something else here, such as the arguments of a function. `of_class`: the class in
        whose body the name stands.
        """
        root, dot, rest = name.partition(".")
        if root in hidden:
            return name
        if of_class and f"{of_class}.{name}" in self._constants:
            name = f"{of_class}.{name}"
        for _ in range(_DEEPEST):
            constant = self._constants.get(name)
            if constant is None or name in self._changed:
                break
            if not isinstance(constant, ast.Name | ast.Attribute):
                return constant
            name = ast.unparse(constant)
            root, dot, rest = name.partition(".")
        return f"{self.imports[root]}{dot}{rest}" if root in self.imports else name

    def _read_import(self, node: ast.Import | ast.ImportFrom, star_names: Mapping[str, frozenset[str]]) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                local = alias.asname or alias.name.partition(".")[0]
                self.imports[local] = alias.name if alias.asname else local
            elif alias.name == "*":
                self.imports |= {name: f"{node.module}.{name}" for name in star_names.get(node.module or "", ())}
            else:
                module = f"{node.module}." if node.module and not node.level else ""
                self.imports[alias.asname or alias.name] = f"{module}{alias.name}"

    def _read_assignments(self, body: Iterable[ast.stmt], prefix: str) -> None:
        for statement in body:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AnnAssign | ast.AugAssign):
                targets = [statement.target]
            value = None if isinstance(statement, ast.AugAssign) else getattr(statement, "value", None)
            for target in targets:
                if not isinstance(target, ast.Name):
                    continue
                name = prefix + target.id
                if name in self._constants or value is None:
                    # Assigned twice, or changed in place: which value holds is not known.
                    self._changed.add(name)
                else:
                    self._constants[name] = value


def _statements(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """Yield the statements of the module's top level, those under `if`, `try` and `with` included."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, ()))
            for handler in getattr(statement, "handlers", ()):
                yield from _statements(handler.body)
