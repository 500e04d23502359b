"""No import cycle, not even one hidden behind TYPE_CHECKING or inside a function: parts get their collaborators."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules(source: Path) -> dict[str, Path]:
    """Every module below a folder, by its dotted name."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The known modules that a module imports anywhere, including under TYPE_CHECKING and inside functions."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield full if full in known else base


def import_graph(source: Path) -> dict[str, set[str]]:
    known = modules(source)
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        # A package that offers the names of its own modules is not a cycle.
        own = f"{name}." if path.name == "__init__.py" else "\0"
        targets = imports(name, path, known)
        graph[name] = {one for one in targets if one in known and one != name and not one.startswith(own)}
    return graph


def first_cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def test_no_module_is_part_of_an_import_cycle() -> None:
    assert first_cycle(import_graph(SOURCE)) == []


def test_a_cycle_behind_type_checking_or_inside_a_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b\n", "utf-8")
    (tmp_path / "b.py").write_text("def later():\n    from c import one\n", "utf-8")
    (tmp_path / "c.py").write_text("one = 1\n", "utf-8")
    assert first_cycle(import_graph(tmp_path)) == []
    (tmp_path / "c.py").write_text("from a import one\n", "utf-8")
    assert set(first_cycle(import_graph(tmp_path))) == {"a", "b", "c"}
