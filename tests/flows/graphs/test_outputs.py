"""What a handler answered, as the outputs of its step."""

from typing import Any

import pytest
from tests.flows.graphs.steps import step

from redrive.flows.graphs.outputs import OutputError, outputs_of


@pytest.mark.parametrize(
    ("declared", "answer", "outputs"),
    [
        ([], {"a": 1}, {"s": {"a": 1}}),
        ([], None, {"s": None}),
        (["a"], {"a": 1, "more": 2}, {"a": 1}),
        (["a"], {"other": 2}, {"a": {"other": 2}}),
        ({"a": "object"}, {"other": 2}, {"a": {"other": 2}}),
        (["a"], [1], {"a": [1]}),
        ({"a": "integer", "b": "string"}, {"b": "x", "a": 1, "c": 3}, {"a": 1, "b": "x"}),
        ({"a": "number"}, 3, {"a": 3}),
    ],
)
def test_an_answer_is_shared_out_to_the_declared_names(declared: Any, answer: Any, outputs: dict[str, Any]) -> None:
    assert outputs_of(step("s", outputs=declared), answer) == outputs


@pytest.mark.parametrize(
    ("declared", "answer", "says"),
    [
        (["a", "b"], {"a": 1}, "step s: the result has no b; the step declares a, b"),
        ({"a": "string"}, {"success": "false"}, "step s: the result has no a; the step declares a"),
        (["a", "b"], "secret", "step s: the result is a string, not an object with a, b"),
        ({"a": "integer"}, "secret", "output 'a' is a string, but a whole number is declared"),
        ({"a": "string"}, {"a": None}, "output 'a' is null, but a string is declared"),
    ],
)
def test_an_answer_that_does_not_fit_says_so_without_showing_it(declared: Any, answer: Any, says: str) -> None:
    with pytest.raises(OutputError) as refused:
        outputs_of(step("s", outputs=declared), answer)
    assert says in str(refused.value)
    assert "secret" not in str(refused.value)
