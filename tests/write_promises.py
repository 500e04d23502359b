"""Keeps docs/promises.md in step with the tests: `python -m tests.write_promises`, or `--check` to change nothing.

The promises are written by hand, one line each: `- **P1** ...`. The line under each, with the tests that prove it, is
made from the `@pytest.mark.promise("P1")` markers. The test files are parsed, not run.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROMISE = re.compile(r"- \*\*(?P<id>[A-Z]+[0-9]+)\*\* \S")
PROOF = "  Proved by "


class Proofs:
    """Which tests name which promises."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, list[str]]] = {}
        """Promise -> file -> names of tests."""
        self.problems: list[str] = []

    def add(self, promise: str, file: str, test: str) -> None:
        names = self.tests.setdefault(promise, {}).setdefault(file, [])
        if test not in names:
            names.append(test)


def collect(root: Path) -> Proofs:
    """Read the markers of every test file under `root`/tests."""
    proofs = Proofs()
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = path.relative_to(root).as_posix()
        module = ast.parse(path.read_text(encoding="utf-8"), filename=file)
        for_all = [
            one for node in module.body if _assigns_pytestmark(node) for one in _marks(node, file, proofs.problems)
        ]
        _collect_from(module, for_all, file, proofs)
    return proofs


def _collect_from(parent: ast.Module | ast.ClassDef, inherited: list[str], file: str, proofs: Proofs) -> None:
    for node in parent.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        promises = [*inherited, *(one for mark in node.decorator_list for one in _marks(mark, file, proofs.problems))]
        if isinstance(node, ast.ClassDef):
            _collect_from(node, promises, file, proofs)
        elif node.name.startswith("test"):
            for promise in promises:
                proofs.add(promise, file, node.name)


def _assigns_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _marks(node: ast.AST, file: str, problems: list[str]) -> Iterator[str]:
    """The ids in each `pytest.mark.promise(...)` found in the node."""
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.promise"):
            continue
        for argument in call.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value
            else:
                problems.append(f"{file}:{call.lineno}: a promise is named by a plain string")


def refreshed(page: str, proofs: Proofs) -> tuple[str, list[str]]:
    """The page with its lists of tests made anew, and what is wrong with it."""
    problems = list(proofs.problems)
    lines: list[str] = []
    listed: set[str] = set()
    for line in page.splitlines():
        if line.startswith(PROOF.rstrip()):
            continue
        lines.append(line)
        found = PROMISE.match(line)
        if found is None:
            continue
        promise = found["id"]
        if promise in listed:
            problems.append(f"{promise} is listed twice")
        listed.add(promise)
        tests = proofs.tests.get(promise)
        if tests:
            lines.append(PROOF + "; ".join(_proof(file, names) for file, names in sorted(tests.items())))
        else:
            problems.append(f"{promise} has no test")
    for promise in sorted(proofs.tests.keys() - listed):
        where = ", ".join(f"{file}::{names[0]}" for file, names in proofs.tests[promise].items())
        problems.append(f"{promise} is not listed in docs/promises.md, but named by {where}")
    return "\n".join(lines) + "\n", problems


def _proof(file: str, names: list[str]) -> str:
    return f"[{file}](../{file}): " + ", ".join(f"`{name}`" for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description="Refresh the lists of tests in docs/promises.md.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when the page is out of date")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    options = parser.parse_args()
    path = options.root / "docs" / "promises.md"
    page = path.read_text(encoding="utf-8")
    wanted, problems = refreshed(page, collect(options.root))
    if options.check and page != wanted:
        problems.append("docs/promises.md is out of date: run python -m tests.write_promises")
    if not options.check:
        path.write_text(wanted, encoding="utf-8")
    for problem in problems:
        print(problem)  # noqa: T201 - what this command says
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
