"""YAML and JSON to plain data: strict, with positions, and never more than data."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import NotationError
from redrive.notation.source import DEEPEST, LARGEST_TEXT, load_document

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(plain, st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_every_json_document_is_read_as_json_reads_it(data: Any, ascii_only: bool, indent: int | str | None) -> None:
    data = {"data": data}
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    try:
        read = load_document(text).data
    except NotationError as refused:
        # YAML has no place for control characters that JSON lets stand unescaped.
        read = data if "column" in str(refused) and not ascii_only else refused
    assert read == data


def test_every_key_and_item_has_its_position() -> None:
    document = load_document("attempts: 3\nrules:\n  - match: any\n    retries: 2\n", "p.yaml")
    lines = {document.place.at(*path).key: document.place.at(*path).line for path in document.place.positions if path}
    assert lines == {"attempts": 1, "rules": 2, "rules[0]": 3, "rules[0].match": 3, "rules[0].retries": 4}
    assert document.place.positions["rules", 0, "retries"].column == 5


def test_words_that_older_yaml_takes_for_something_else_stay_words() -> None:
    document = load_document("on: yes\nwait: 1:30\nday: 2024-01-01\nnumber: 1_000\n")
    assert document.data == {"on": "yes", "wait": "1:30", "day": "2024-01-01", "number": "1_000"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\nb: 2\na: 3", "p:3: key 'a', value 3: duplicate key, first used on line 1"),
        ("a: &x 1", "anchor"),
        ("a: *x", "alias"),
        ("a: !!python/name:os.system x", "tag"),
        ("a: !!int 3", "tag"),
        ("a: 1\n---\nb: 2", "p:2: a second document"),
        ("? [a]\n: 1", "used as a key"),
        ("a: [1", "p:1: expected"),
        ("a:\n\tb: 1", "p:2: YAML does not allow a tab"),
        ("a: \x00", "U+0000"),
        ('"\\Uffffffff"', "not readable"),
        ("[" * (DEEPEST + 1), "nested too deep"),
        ("- " * (DEEPEST + 1), "nested too deep"),
        ("a" * (LARGEST_TEXT + 1), "too long"),
        ("%YAML 1." + "9" * 5000 + "\n--- a", "not readable"),
    ],
)
def test_what_is_more_or_less_than_plain_data_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(NotationError) as refused:
        load_document(text, "p")
    assert says in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert "allowed: " in str(refused.value)


@given(st.text() | st.text(alphabet="[]{}:,-?&*!|>'\"%@# \n\tab01~<\\u"))
def test_no_text_raises_anything_but_a_notation_error(text: str) -> None:
    said = ""
    try:
        load_document(text)
    except NotationError as refused:
        said = str(refused)
    assert len(said.splitlines()) <= 1
