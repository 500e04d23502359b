"""The page of known errors as a whole."""

import pytest

from .table import BEGIN, END, PAGE, heading
from .write_table import libraries


def rows() -> list[list[str]]:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table = rest.partition(END)[0].strip().splitlines()
    assert table[:2] == heading()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


@pytest.mark.promise("L2")
def test_it_has_a_row_for_each_library_and_no_other() -> None:
    assert [cells[0] for cells in rows()] == [library.name for library in libraries()]


@pytest.mark.promise("L2")
def test_nothing_in_it_is_unknown() -> None:
    assert [cells for cells in rows() if any("unknown" in cell for cell in cells)] == []
