"""`when`: what can be said, what cannot, and that none of it takes long."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.flows.graphs.conditions import FUNCTIONS, LONGEST_CONDITION, ConditionError, check_condition, holds

VALUES = {"total": 12.5, "country": "DE", "lines": [1, 2, 3], "order": {"state": "new", "n": 0}, "note": None}


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("total > 10", True),
        ("total > 10 and country in ['AT', 'CH']", False),
        ("not (total < 10) or country == 'FR'", True),
        ("0 < len(lines) <= 3", True),
        ("lines[0] == 1", True),
        ("order.state == 'new'", True),
        ("order['state'] != 'new'", False),
        ("note == null and note == None", True),
        ("true != false", True),
        ("upper(lower(country)) == 'DE'", True),
        ("startswith(country, 'D') and endswith(country, 'E')", True),
        ("round(total / 3, 1) == 4.2", True),
        ("max(lines) - min(1, 2) + abs(-3) == 5", True),
        ("total % 2 == 0.5 and 7 // 2 == 3 and 2 * 3 == 6", True),
        ("country + '!' == 'DE!'", True),
        ("(total > 10) if country == 'DE' else false", True),
        ("'state' in order", True),
        ("country not in ('DE', 'AT')", False),
    ],
)
def test_a_condition_is_answered(condition: str, answer: bool) -> None:
    check_condition(condition, VALUES)
    assert holds(condition, VALUES) is answer


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("total >", "not a condition"),
        ("", "not a condition"),
        ("totl > 3", "'totl' is not an input of the step; did you mean 'total'?"),
        ("total ** 2 > 3", "a power"),
        ("1 << 2 == 4", "found '<', expected a value"),
        ("lines[0:2] == lines", "a slice of a list"),
        ("note is None", "`is` (write ==)"),
        ("[x for x in lines] == lines", "no comprehensions"),
        ("(lambda: 1)() == 1", "expected ')' or an operator"),
        ("open('/etc/passwd') == 1", "'open' is not a function"),
        ("__import__('os') == 1", "not a function"),
        ("country.upper() == 'DE'", "values have no methods; write upper(country)"),
        ("len(obj=lines) == 3", "by position"),
        ("f'{total}' == '1'", "strings have no prefix 'f'"),
        ("(total := 3) == 3", "found ':', expected ')' or an operator"),
        ("b'x' == b'x'", "strings have no prefix 'b'"),
        ("len(*lines) == 3", "found '*', expected a value"),
        ("total > 1; total > 2", "not a condition"),
        ("x" * (LONGEST_CONDITION + 1), "at most 500"),
        ("(" * 245 + "1" + ")" * 245 + " == 1", "not a condition"),
        ("not " * 100 + "total", "nested too deeply"),
        ("-" * 400 + "1 == 1", "not a condition"),
    ],
)
def test_what_is_no_condition_is_refused_when_it_is_read(condition: str, says: str) -> None:
    with pytest.raises(ConditionError) as refused:
        check_condition(condition, VALUES)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("order.missing == 1", "there is no key 'missing'"),
        ("order['missing'] == 1", "a key is missing"),
        ("lines[9] == 1", "too short"),
        ("country > 3", "not supported"),
        ("country.upper == 1", "a string has no key 'upper'"),
        ("order.__class__ == 1", "no key '__class__'"),
        ("1 / order.n == 1", "division by zero"),
        ("lines * 100000000 == lines", "a list would have more than 100,000 elements"),
        ("'%1000000000d' % 3 == ''", "% does not fill in texts"),
        ("round(5, -1000000000) == 5", "digits"),
        ("lower(3) == 'x'", "lower() takes a text, not int"),
        ("total", "gives a number, not true or false"),
        ("other == 1", "there is no value 'other'"),
    ],
)
def test_a_condition_that_cannot_be_answered_says_why(condition: str, says: str) -> None:
    with pytest.raises(ConditionError, match="when ") as refused:
        holds(condition, VALUES)
    assert says in str(refused.value)


@given(st.text(alphabet="totalinescry ()[].,'\"<>=!+-*/%0123456789", max_size=60))
def test_any_text_is_either_answered_or_refused(text: str) -> None:
    with contextlib.suppress(ConditionError):
        assert isinstance(holds(text, VALUES), bool)


def test_values_are_bounded() -> None:
    with pytest.raises(ConditionError, match="1,000,000 characters"):
        holds("text + text == text", {"text": "x" * 600_000})


def test_the_functions_are_few() -> None:
    assert set(FUNCTIONS) == {"abs", "endswith", "len", "lower", "max", "min", "round", "startswith", "upper"}
