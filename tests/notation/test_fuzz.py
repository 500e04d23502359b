"""Arbitrary input: whatever is read, only a NotationError of one line may come of it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.notation import NOTATIONS, lint_text, read_policy
from redrive.notation.catalogue import READABLE

KEYS = sorted({key for notation in NOTATIONS.values() for key in (*notation.keys, *notation.wrapper)})
WORDS = [
    *KEYS,
    *("[", "]", "(", ")", "{", "}", "->", ":", ",", "=", "@", "|", "+", "&", "#", "'", '"', "\n", "\n  ", "- ", "\t"),
    *(
        "retry",
        "timeout",
        "linear",
        "exponential 1s",
        "30s",
        "-1",
        "0",
        "1.5",
        "null",
        "true",
        "States.ALL",
        "ErrorEquals",
    ),
    *("stop_after_attempt(3)", "wait_fixed(1)", "retry_if_exception_type(", "timedelta(", "stamina.retry(", "@retry("),
]
texts = (
    st.text(max_size=80)
    | st.text(alphabet="[](){}:,->=@|+&#'\"\n\t ab01.\\<x", max_size=60)
    | st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)
    | st.lists(st.sampled_from(WORDS), max_size=25).map("".join)
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=10)
    | st.sampled_from([OSError, KeyboardInterrupt, int, object()]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def only_in_one_line(read: Any, *arguments: Any) -> None:
    said = ""
    try:
        read(*arguments)
    except NotationError as refused:
        said = str(refused)
    assert len(said.splitlines()) <= 1
    assert len(said) < 2000


@given(texts, st.sampled_from(["auto", *READABLE]))
def test_no_text_raises_anything_else(text: str, notation: str) -> None:
    only_in_one_line(read_policy, text, notation)
    only_in_one_line(lint_text, text, notation)


@given(st.dictionaries(st.sampled_from(KEYS), values, max_size=5) | values, st.sampled_from(["auto", *READABLE]))
def test_no_data_raises_anything_else(data: Any, notation: str) -> None:
    if not isinstance(data, str):
        only_in_one_line(read_policy, data, notation)


@given(st.sampled_from(READABLE).filter(lambda name: bool(NOTATIONS[name].keys)), st.data())
def test_no_value_under_a_known_key_raises_anything_else(notation: str, data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(NOTATIONS[notation].keys))
    only_in_one_line(read_policy, {key: data.draw(values)}, notation)
