"""Durations as people write them."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.determinism.durations import ALLOWED_FORMS
from redrive.errors import DurationError
from redrive.failures.duration import read_duration


@pytest.mark.promise("R1", "R4")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (60, 60.0),
        (0, 0.0),
        (1.5, 1.5),
        ("60", 60.0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("500ms", 0.5),
        ("9ms", 0.009),
        ("30s", 30.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1d", 86_400.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("1.5h", 5400.0),
        (" 30s ", 30.0),
        ("30 s", 30.0),
        ("1h 30m", 5400.0),
        (timedelta(minutes=2), 120.0),
        (timedelta(0), 0.0),
    ],
)
def test_reads_every_form(written: object, seconds: float) -> None:
    assert read_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "s",
        "30x",
        "30S",
        "30m1h",
        "1h1h",
        "1m-30s",
        "-5",
        "-5s",
        "+5s",
        "1e3",
        "nan",
        "inf",
        "1,5s",
        "٣s",
        "30s\x00",
        "9" * 1000,
        -1,
        -0.001,
        math.nan,
        math.inf,
        -math.inf,
        10**400,
        True,
        None,
        [30],
        b"30s",
        timedelta(seconds=-1),
    ],
)
def test_refuses_what_is_no_duration_and_says_what_is(written: object) -> None:
    with pytest.raises(ValueError, match="is not a duration") as caught:
        read_duration(written)
    assert isinstance(caught.value, DurationError)
    assert ALLOWED_FORMS in str(caught.value)
    assert repr(written)[:20] in str(caught.value)
    assert len(str(caught.value)) < 300


def test_zero_has_no_sign() -> None:
    assert math.copysign(1, read_duration(-0.0)) == 1


@given(st.text())
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        seconds = read_duration(text)
    except ValueError:
        return
    assert math.isfinite(seconds)
    assert seconds >= 0


@given(st.integers(0, 999), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 9999))
def test_units_add_up(days: int, hours: int, minutes: int, seconds: int, milliseconds: int) -> None:
    written = f"{days}d{hours}h{minutes}m{seconds}s{milliseconds}ms"
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
    assert read_duration(written) == pytest.approx(expected.total_seconds())
    assert read_duration(written) == pytest.approx(read_duration(expected))


@given(st.floats(0, 1e12))
def test_numbers_and_their_text_mean_the_same(seconds: float) -> None:
    assert read_duration(seconds) == seconds
    assert read_duration(f"{seconds:.3f}") == pytest.approx(seconds, abs=0.001)
