"""A bracket that cannot be read shows the spelling that can."""

import pytest

from redrive.errors import NotationError
from redrive.flows.scripts.parsing import read_script
from redrive.notation.read import read_policy


@pytest.mark.parametrize(
    ("given", "right"),
    [
        ("[A, B -> retry: 3]", "[(A, B) -> retry: 3]"),
        ("[A | B -> retry: 3]", "[(A, B) -> retry: 3]"),
        ("[A or B -> retry: 3]", "[(A, B) -> retry: 3]"),
        ("[A B -> retry: 3]", "[(A, B) -> retry: 3]"),
        ("[[A, status:503] -> retry: 3]", "[(A, status:503) -> retry: 3]"),
        ("[503 -> retry: 3]", "[status:503 -> retry: 3]"),
        ('["A" -> retry: 3]', "[A -> retry: 3]"),
        ("[A => retry: 3]", "[A -> retry: 3]"),
        ("[A: retry: 3]", "[A -> retry: 3]"),
        ("[A, retry: 3]", "[A -> retry: 3]"),
        ("[retry: 3 -> A]", "[A -> retry: 3]"),
        ("[A -> 3]", "[A -> retry: 3]"),
        ("[retry=3, backoff=2s]", "[retry: 3, backoff: 2s]"),
        ("[retry 3, backoff 2s]", "[retry: 3, backoff: 2s]"),
        ("[A -> retry: 3 backoff: 2s]", "[A -> retry: 3, backoff: 2s]"),
        ("[A -> retry: 3; backoff: 2s]", "[A -> retry: 3, backoff: 2s]"),
        ("[A -> retry: 3, B -> retry: 2]", "[A -> retry: 3] [B -> retry: 2]"),
        ("[retry: 3] [A, B -> retry: 2]", "[retry: 3] [(A, B) -> retry: 2]"),
    ],
)
def test_the_right_spelling_is_shown_and_can_be_read(given: str, right: str) -> None:
    with pytest.raises(NotationError) as raised:
        read_policy(given, "brackets")
    assert f"; write {right}; allowed: " in str(raised.value)
    read_policy(right, "brackets")


@pytest.mark.parametrize(
    "given",
    [
        "[]",
        "[A -> ]",
        "[colour: blue]",
        "[retry: many]",
        "[(A, 3x) -> retry: 3]",
        "[status:42 -> retry: 3]",
        "[" + "A, " * 500 + "-> retry: 3]",
    ],
)
def test_nothing_is_proposed_that_cannot_be_read(given: str) -> None:
    with pytest.raises(NotationError) as raised:
        read_policy(given, "brackets")
    assert "; write [" not in str(raised.value)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ("[A, B -> retry: 3]", "write [(A, B) -> retry: 3]"),
        ("(retry: 3)", "a policy stands in square brackets; write [retry: 3]"),
        ("{retry: 3}", "a policy stands in square brackets; write [retry: 3]"),
        ("retry: 3", "a policy stands in square brackets; write [retry: 3]"),
    ],
)
def test_the_policy_of_an_action_in_a_script(policy: str, told: str) -> None:
    _, problems = read_script(f"fn main():\n    x = @fetch() {policy}\n    return x\n", "a.rd")
    assert any(told in str(problem) for problem in problems.found), problems.found
