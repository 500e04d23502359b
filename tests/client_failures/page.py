"""The tables of docs/client-failures.md, between their marks; the text around them is written by hand."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from .cells import Cell

PAGE = Path(__file__).parents[2] / "docs" / "client-failures.md"
END = "<!-- end -->"
DOES_NOT_APPLY = ""
SECTIONS = ("network", "statuses", "retry_after", "vendors")


def page(text: str, cells: Sequence[Cell]) -> str:
    """The page with its tables made anew."""
    for section in SECTIONS:
        mine = [cell for cell in cells if cell.section == section]
        lines = vendors_table(mine) if section == "vendors" else table(mine)
        begin = f"<!-- {section}: made by python -m tests.client_failures -->"
        before, mark, rest = text.partition(begin)
        assert mark, f"the page has no place for {section}"
        _, _, after = rest.partition(END)
        text = before + "\n".join([begin, "", *lines, "", END]) + after
    return text


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """A row for each library, a column for each failure."""
    columns = list(dict.fromkeys(cell.failure for cell in cells))
    yield "| library | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    found = {(cell.library, cell.failure): cell.text() for cell in cells}
    for library in dict.fromkeys(cell.library for cell in cells):
        yield f"| {library} | " + " | ".join(found.get((library, column), DOES_NOT_APPLY) for column in columns) + " |"


def vendors_table(cells: Sequence[Cell]) -> Iterator[str]:
    yield "| library | the server says | redrive |"
    yield "|---|---|---|"
    for cell in cells:
        yield f"| {cell.library} | {cell.failure} | {cell.text()} |"
