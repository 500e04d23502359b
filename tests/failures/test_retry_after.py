"""Retry-After: seconds, the three date forms, and everything that is neither."""

import math
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.failures.retry_after import parse_retry_after

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC).timestamp()
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

moments = st.integers(0, 48 * 365 * 86_400).map(lambda ahead: datetime.fromtimestamp(NOW + ahead, UTC))


def imf_fixdate(moment: datetime) -> str:
    return format_datetime(moment, usegmt=True)


def rfc850(moment: datetime) -> str:
    month = MONTHS[moment.month - 1]
    return f"{DAYS[moment.weekday()]}, {moment:%d}-{month}-{moment:%y} {moment:%H:%M:%S} GMT"


def asctime(moment: datetime) -> str:
    return f"{DAYS[moment.weekday()][:3]} {MONTHS[moment.month - 1]} {moment.day:2d} {moment:%H:%M:%S} {moment:%Y}"


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("30", 30.0), ("1.5", 1.5), ("  7\t", 7.0), ("007", 7.0), ("9" * 100, float("9" * 100))],
)
def test_seconds(value: str, seconds: float) -> None:
    reading = parse_retry_after(value, NOW)
    assert reading.seconds == seconds
    assert reading.note == ""


@pytest.mark.promise("P7")
@pytest.mark.parametrize(
    "value",
    [
        "Mon, 04 May 2026 12:00:45 GMT",
        "Monday, 04-May-26 12:00:45 GMT",
        "Mon May  4 12:00:45 2026",
        "mon, 04 may 2026 12:00:45 gmt",
        "  MON,  4  MAY 2026  12:00:45  GMT ",
        "Mon, 04 May 2026 12:00:45 UTC",
    ],
)
def test_dates_in_all_three_forms(value: str) -> None:
    assert parse_retry_after(value, NOW).seconds == 45.0
    assert parse_retry_after(value, NOW).note == ""


@pytest.mark.promise("P7")
@given(moments, st.sampled_from([imf_fixdate, rfc850, asctime]))
def test_every_date_of_the_next_decades_is_read_in_every_form(moment: datetime, write: object) -> None:
    assert callable(write)
    expected = moment.timestamp() - NOW
    reading = parse_retry_after(write(moment), NOW)
    assert reading.seconds == expected
    assert reading.note == ""


@pytest.mark.promise("P7")
def test_a_date_in_the_past_is_now_and_says_so() -> None:
    reading = parse_retry_after("Mon, 04 May 2026 11:59:59 GMT", NOW)
    assert reading.seconds == 0.0
    assert "past" in reading.note
    assert "04 May 2026 11:59:59" in reading.note


@pytest.mark.parametrize(
    ("two_digits", "year"),
    [("26", 2026), ("27", 2027), ("76", 2076), ("77", 1977), ("94", 1994), ("00", 2000)],
)
def test_two_digit_years_are_at_most_fifty_years_ahead(two_digits: str, year: int) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    reading = parse_retry_after(f"Monday, 04-May-{two_digits} 12:00:00 GMT", now.timestamp())
    ahead = (now.replace(year=year) - now).total_seconds()
    assert reading.seconds == max(ahead, 0.0)
    assert ("past" in reading.note) == (ahead < 0)


def test_two_digit_years_are_read_to_the_second_of_fifty_years() -> None:
    on_time = parse_retry_after("Monday, 04-May-76 12:00:00 GMT", NOW).seconds
    too_late = parse_retry_after("Monday, 04-May-76 12:00:01 GMT", NOW).seconds
    assert on_time is not None
    assert on_time > 49 * 365 * 86_400
    assert too_late == 0.0


def test_a_two_digit_year_at_the_end_of_a_century_is_in_the_next() -> None:
    now = datetime(2099, 12, 31, 23, 59, 0, tzinfo=UTC).timestamp()
    assert parse_retry_after("Friday, 01-Jan-00 00:00:00 GMT", now).seconds == 60.0


def test_a_leap_second_is_the_next_minute() -> None:
    assert parse_retry_after("Mon, 04 May 2026 12:00:60 GMT", NOW).seconds == 60.0


@pytest.mark.parametrize(
    "value",
    [
        "",
        "   ",
        "soon",
        "-5",
        "+5",
        "1e3",
        "nan",
        "inf",
        "Infinity",
        "0x10",
        "1_000",
        "5 seconds",
        "5, 10",
        "٣٠",
        "\uff13\uff10",
        "1.",
        "1.5.2",
        "Mon, 31 Feb 2026 12:00:00 GMT",
        "Mon, 04 May 2026 25:00:00 GMT",
        "Mon, 04 May 2026 12:60:00 GMT",
        "Mon, 04 May 2026 12:00:61 GMT",
        "Mon, 04 May 0000 12:00:00 GMT",
        "Mon, 04 May 2026 12:00:00 +0200",
        "Mon, 04 May 2026 12:00:00",
        "Mon, 04 Mai 2026 12:00:00 GMT",
        "04 May 2026 12:00:00 GMT",
        "2026-05-04T12:00:45Z",
        "Mon, ٠٤ May 2026 12:00:45 GMT",
    ],
)
def test_garbage_is_ignored_and_shown(value: str) -> None:
    reading = parse_retry_after(value, NOW)
    assert reading.seconds is None
    assert "ignored" in reading.note
    assert len(reading.note) < 200
    assert ascii(value.strip()[:20])[1:-1] in reading.note or repr(value.strip()[:20])[1:-1] in reading.note


@pytest.mark.parametrize("value", ["9" * 101, "x" * 10_000])
def test_a_value_of_absurd_length_is_ignored_and_not_shown(value: str) -> None:
    reading = parse_retry_after(value, NOW)
    assert reading.seconds is None
    assert reading.note == f"Retry-After is ignored, it has {len(value)} characters"


@pytest.mark.promise("P11")
def test_a_credential_in_the_header_is_not_shown() -> None:
    assert "s3cr3t" not in parse_retry_after("Bearer s3cr3t-t0k3n", NOW).note


def test_a_note_cannot_break_a_log_line() -> None:
    note = parse_retry_after("5\r\nforged: line\x1b[31m", NOW).note
    assert note.isprintable()


@given(st.text() | st.text(alphabet="0123456789.:-, GMTUmonMayJAN\t"), st.floats(0, 4e9))
def test_never_raises_and_never_asks_for_nonsense(value: str, wall_now: float) -> None:
    reading = parse_retry_after(value, wall_now)
    if reading.seconds is None:
        assert "ignored" in reading.note
    else:
        assert math.isfinite(reading.seconds)
        assert reading.seconds >= 0


@pytest.fixture
def far_time_zone() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "XYZ-13:45"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("far_time_zone")
def test_the_local_time_zone_does_not_matter() -> None:
    assert time.timezone == -(13 * 3600 + 45 * 60)
    for value in ("Mon, 04 May 2026 12:00:45 GMT", "Monday, 04-May-26 12:00:45 GMT", "Mon May  4 12:00:45 2026"):
        assert parse_retry_after(value, NOW).seconds == 45.0


def test_later_dates_ask_for_longer_waits() -> None:
    start = datetime(2026, 5, 4, 12, tzinfo=UTC)
    waits = [parse_retry_after(imf_fixdate(start + timedelta(hours=n)), NOW).seconds for n in range(48)]
    assert waits == [3600.0 * n for n in range(48)]
