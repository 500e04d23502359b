"""Check Python files for clients that retry by themselves beside redrive."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from redrive.cli.bad_input import BadInput

MOST_FILES = 5000
LARGEST_FILE = 2 * 1024 * 1024
MOST_SHOWN = 20
# Code of others, or no code.
_SKIPPED = ("site-packages", "node_modules", "__pycache__", "build", "dist")


def check_sources(paths: Iterable[str]) -> list[tuple[bool, str]]:
    """Return a line for each problem, and whether it is one; BadInput for a path that does not exist."""
    from redrive.notation.linting.second_owners import second_owners

    problems: list[str] = []
    number = 0
    for path in _python_files(paths):
        number += 1
        try:
            found = second_owners(_parsed(path))
        # Python's parser runs out of memory on code that is nested too deeply.
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
            problems.append(f"{path} cannot be read: {type(error).__name__}")
            continue
        problems += [f"{path}:{one.line}: {one.message}; {one.advice}" for one in found]
    if not problems:
        return [(True, f"no client in {number} {'file' if number == 1 else 'files'} retries by itself beside redrive")]
    shown = [(False, problem) for problem in problems[:MOST_SHOWN]]
    more = len(problems) - MOST_SHOWN
    return [*shown, (False, f"and {more} more")] if more > 0 else shown


def _python_files(paths: Iterable[str]) -> Iterator[Path]:
    number = 0
    for name in paths:
        path = Path(name)
        if not path.exists():
            raise BadInput(f"{name}: there is no such file or folder; name Python files or folders")
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if path.is_dir() and _is_skipped(file.relative_to(path)):
                continue
            number += 1
            if number > MOST_FILES:
                raise BadInput(f"{name}: more than {MOST_FILES:,} files; name the folders of your own code")
            yield file


def _is_skipped(path: Path) -> bool:
    return any(part in _SKIPPED or part.startswith(".") for part in path.parts)


def _parsed(path: Path) -> ast.Module:
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError("too large")
    return ast.parse(path.read_bytes())
