"""Writes the table of docs/known-errors.md: `python -m tests.failures.known_errors.write_table`.

Every library really fails against a server that misbehaves. The tests check one row each, so that no test process has
to import all the libraries.
"""

import importlib
import warnings
from pathlib import Path

from tests.misbehaving.library import Library

from .table import BEGIN, END, PAGE, heading, row


def libraries() -> list[Library]:
    """All libraries, found in the test files beside this one."""
    found: dict[str, Library] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        found.update({one.name: one for one in vars(module).values() if isinstance(one, Library)})
    return sorted(found.values(), key=lambda library: library.name)


def main() -> None:
    warnings.simplefilter("ignore")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join([*heading(), *(row(library) for library in libraries())])
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
