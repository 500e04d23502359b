"""Limits on JSON that hold before it is decoded, whatever its strings contain."""

import gc
import json
import random
from typing import Any

import pytest

from redrive.errors import SerializationError
from redrive.flows.values import json_form, json_limits
from redrive.flows.values.json_form import JsonForm
from redrive.flows.values.json_limits import has_too_many_values, is_too_deep, without_collector

TEXTS = ["", "a", ",", '"', "\\", '\\"', "[[", "]{", 'x","y', "\\\\", '"[', "é,", "\n:"]


def counted(value: Any) -> int:
    """Values, with one more for each list, object and key."""
    if isinstance(value, dict):
        return 2 + sum(1 + counted(one) for one in value.values())
    return 2 + sum(map(counted, value)) if isinstance(value, list) else 1


def depth(value: Any) -> int:
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


def by_chance(dice: random.Random, levels: int) -> Any:
    kind = dice.choice("lds" if levels else "s")
    if kind == "l":
        return [by_chance(dice, levels - 1) for _ in range(dice.randrange(4))]
    if kind == "d":
        return {dice.choice(TEXTS) + str(n): by_chance(dice, levels - 1) for n in range(dice.randrange(4))}
    return dice.choice([*TEXTS, 1, None, 2.5])


@pytest.mark.promise("X8")
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_values_and_levels_are_counted_outside_of_strings(
    separators: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(11)
    for _ in range(3_000):
        value = by_chance(dice, 5)
        written = json.dumps(value, separators=separators, ensure_ascii=dice.random() < 0.5).encode()
        # An empty list follows no comma of its own, so that it may count as one less.
        for most in range(max(0, counted(value) - 12), counted(value) + 3):
            monkeypatch.setattr(json_limits, "MOST_VALUES", most)
            if most >= counted(value):
                assert not has_too_many_values(written), written
        monkeypatch.setattr(json_limits, "MOST_VALUES", max(0, counted(value) // 2 - 1))
        assert has_too_many_values(written) or counted(value) < 4, written
        monkeypatch.setattr(json_limits, "SHORT_JSON", 0)
        for deepest in (depth(value) - 1, depth(value)):
            monkeypatch.setattr(json_limits, "DEEPEST_JSON", deepest)
            assert is_too_deep(written) == (deepest < depth(value)), written


@pytest.mark.promise("X8")
def test_an_argument_with_too_many_values_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    form = JsonForm(Any, "action take: its arguments")
    monkeypatch.setattr(form, "_decode", decoded.append)
    monkeypatch.setattr(json_limits, "MOST_VALUES", 1_000)
    monkeypatch.setattr(json_form, "MOST_VALUES", 1_000)
    with pytest.raises(SerializationError, match="more than the 1,000 values allowed"):
        form.write([[]] * 1_000)
    assert decoded == []
    assert JsonForm(Any, "x").write(["a,b,c"] * 900)[1] == ["a,b,c"] * 900


def test_the_collector_is_as_before_after_large_json() -> None:
    with without_collector(10**6):
        assert not gc.isenabled()
        with without_collector(10**6):
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with without_collector(10):
        assert gc.isenabled()
