"""Arbitrary text: only a ScriptError may come of it, and work that grows with the text and no faster."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.scripts.examples import BRACKETS, ORDER

from redrive.errors import ScriptError
from redrive.flows.scripts.formatting import format_script
from redrive.flows.scripts.parsing import parse

WORDS = [
    *(
        "fn",
        "if",
        "elif",
        "else",
        "for",
        "in",
        "while",
        "try",
        "except",
        "finally",
        "parallel",
        "spread",
        "sleep",
        "raise",
    ),
    *(
        "return",
        "break",
        "not",
        "and",
        "is",
        "as",
        "True",
        "x",
        "main",
        "@f",
        "1",
        "1.5",
        "5m",
        "5x",
        '"a"',
        "'",
        '"',
        "\\",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        ".",
        "=",
        "==",
        "+=",
        "->",
        "-",
        "**",
        "#",
        "$",
        "\n",
        "\n    ",
        "\n\t",
        "\r",
    ),
    *("[retry: 3]", "[timeout: 2m]", "[A -> retry: 1]", "\ufeff", "\x00", "\u2028", "é", "²"),
]


def read(text: str) -> None:
    try:
        script = parse(text)
    except ScriptError as refused:
        problems = refused.problems
    else:
        formatted = format_script(text)
        assert format_script(formatted) == formatted
        assert parse(formatted).functions == script.functions
        return
    assert all(one.message and one.line >= 1 and one.column >= 1 and str(one) for one in problems)


@given(st.text())
def test_any_text(text: str) -> None:
    read(text)


@given(st.binary())
def test_any_bytes(content: bytes) -> None:
    read(content.decode("latin-1"))


@given(st.lists(st.sampled_from(WORDS), max_size=40), st.sampled_from(["", " "]))
def test_any_words_of_the_language(words: list[str], between: str) -> None:
    read(between.join(words))


@given(st.data())
def test_a_script_with_pieces_cut_out_put_in_and_moved(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([ORDER, BRACKETS]))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(len(text), at + 30)))
        put_in = data.draw(st.sampled_from([*WORDS, text[at:end] * 2, text[end : end + 20]]))
        text = text[:at] + put_in + text[end:]
    read(text)


def steps(work: Callable[[], Any]) -> int:
    """Calls of functions, which are what time is spent on, and the same on every machine."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += 1

    sys.setprofile(seen)
    try:
        work()
    except ScriptError:
        pass
    finally:
        sys.setprofile(None)
    return count


FORMATTED = ("statements", "actions", "functions", "terms", "elements", "branches", "names with dots")
GROWING: dict[str, Callable[[int], str]] = {
    "statements": lambda n: "x = a + 1\n" * n,
    "actions": lambda n: "@f() [A -> retry: 1, backoff: 1s]\n" * n,
    "functions": lambda n: "".join(f"fn f{index}(a, b=1):\n    return a\n" for index in range(n)),
    "terms": lambda n: "x = " + "f(1) + " * n + "1",
    "elements": lambda n: "x = [" + "[1],  # c\n" * n + "1]",
    "branches": lambda n: "if a:\n  b()\n" + "elif c:\n  d()\n" * n,
    "names with dots": lambda n: "@" + "a." * n + "b()",
    "signs": lambda n: "x = " + "-" * n + "1",
    "indexes": lambda n: "x = a" + "[0]" * n,
    "open brackets": lambda n: "x = f(\n" + "for a in\n" * n,
    "lines without sense": lambda n: "x = = 1\n" * n,
    "blocks without sense": lambda n: "iff x\n  y = 1\n" * n,
    "handlers that lack": lambda n: "try:\n  x = 1\n" * n,
    "brackets without sense": lambda n: "@f() [ x\n" * n,
}


@pytest.mark.parametrize("kind", GROWING)
def test_three_times_the_text_is_about_three_times_the_work(kind: str) -> None:
    parse("x = 1")
    # The first problems are put into words and cost more: both texts have more than are told.
    size = 20 if kind in FORMATTED else 55
    few, many = GROWING[kind](size), GROWING[kind](3 * size)
    assert steps(lambda: parse(many)) <= 4 * steps(lambda: parse(few))


@pytest.mark.parametrize("kind", FORMATTED)
def test_formatting_three_times_the_text_is_about_three_times_the_work(kind: str) -> None:
    few, many = GROWING[kind](15), GROWING[kind](45)
    assert steps(lambda: format_script(many)) <= 4 * steps(lambda: format_script(few))


@pytest.mark.parametrize(
    "text",
    [
        *("x = " + "1" * 100_000 + "x", "x = " + "1s" * 50_000 + "_", "x = " + "1." * 50_000, 'x = "' + "\\a" * 50_000),
        *("x = " + "'" * 30_001, "x = " + "not " * 20_000, "#" * 100_000, "\n" * 100_000, " " * 100_000 + "x"),
    ],
    ids=lambda text: text[:10] + "...",
)
def test_long_words_are_read_in_one_pass(text: str) -> None:
    """Were one of them read again from each of its characters, this would not end."""
    with pytest.raises(ScriptError):
        parse(text)
