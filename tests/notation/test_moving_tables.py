"""The tables of settings in docs/moving-from-tenacity.md are those of the readers."""

import re
from pathlib import Path

import pytest

from redrive.notation import NOTATIONS
from redrive.notation.formats.temporal import CAMEL_KEYS, SNAKE_KEYS
from redrive.policies.policy import Policy

pytestmark = pytest.mark.promise("L8")

PAGE = Path(__file__).parents[2] / "docs" / "moving-from-tenacity.md"


def table(library: str) -> dict[str, set[str]]:
    """Setting -> the policy fields in its row."""
    section = PAGE.read_text(encoding="utf-8").partition(f"### {library} settings\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section, re.MULTILINE)
    return {
        setting: set(re.findall(r"`(\w+)`", fields))
        for settings, fields in rows
        for setting in re.findall(r"`(\w+)`", settings)
    }


@pytest.mark.parametrize("library", ["tenacity", "stamina", "backoff", "celery", "temporal"])
def test_every_setting_is_listed_with_the_fields_that_it_sets(library: str) -> None:
    notation = NOTATIONS[library]
    snake = dict(zip(CAMEL_KEYS, SNAKE_KEYS, strict=True)) if library == "temporal" else {}
    shown = table(library)
    assert set(shown) == {key for key in notation.keys if key not in snake}
    for field, key in notation.spelling.items():
        assert field in shown[snake.get(key, key)]
    assert set.union(*shown.values()) <= set(Policy.__struct_fields__)
