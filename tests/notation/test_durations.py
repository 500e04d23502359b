"""Durations: read as people write them, written so that they read back."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.notation import read_duration, write_duration


@pytest.mark.promise("R1", "R4")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (60, 60.0),
        ("60", 60.0),
        ("30s", 30.0),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("500ms", 0.5),
        ("1d", 86_400.0),
        ("1h30m", 5400.0),
        (1.5, 1.5),
        ("1.5", 1.5),
        ("1.5m", 90.0),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_what_people_write_is_read(written: object, seconds: float) -> None:
    assert read_duration(written) == seconds


@pytest.mark.parametrize("written", ["", "s", "1x", "-1s", "30m1h", "1e3", "five", -1, float("nan"), True, None, [1]])
def test_what_is_no_duration_is_refused_with_the_value_and_the_forms(written: object) -> None:
    with pytest.raises(ValueError, match=r"is not a duration.*30s") as refused:
        read_duration(written)
    assert repr(written) in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (0.5, "500ms"),
        (1.5, "1.5s"),
        (30, "30s"),
        (60, "1m"),
        (90, "1m30s"),
        (5400, "1h30m"),
        (86_400, "1d"),
        (0.0005, "0.0005s"),
    ],
)
def test_durations_are_written_in_the_usual_form(seconds: float, written: str) -> None:
    assert write_duration(seconds) == written


@given(st.floats(min_value=1e-9, max_value=315_360_000.0))
def test_a_written_duration_reads_back_to_the_same_number(seconds: float) -> None:
    assert read_duration(write_duration(seconds)) == seconds


@given(st.integers(min_value=0, max_value=10**12))
def test_whole_milliseconds_read_back_too(milliseconds: int) -> None:
    assert read_duration(write_duration(milliseconds / 1000)) == milliseconds / 1000
