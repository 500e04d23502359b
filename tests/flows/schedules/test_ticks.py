"""When schedules are due: no tick is lost or doubled where the clocks are changed."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.flows.schedules.ticks import Timing, due_at, shortest_interval, tick_after, ticks_after

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kolkata")
DAY = 86_400.0

instants = st.integers(
    int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()), int(datetime(2027, 12, 31, tzinfo=UTC).timestamp())
).map(float)
# Near the nights when the clocks of some zone are changed.
changes = st.sampled_from(
    [
        datetime(2026, *day, tzinfo=UTC).timestamp()
        for day in ((3, 28), (3, 29), (10, 24), (10, 25), (3, 7), (3, 8), (10, 31), (11, 1), (4, 4), (10, 3), (2, 15))
    ]
).flatmap(lambda day: st.integers(0, 2 * 86_400).map(lambda more: day + more))
starts = st.one_of(instants, changes)


def local(tick: float, zone: str) -> str:
    return datetime.fromtimestamp(tick, ZoneInfo(zone)).strftime("%d %H:%M %z")


def at(zone: str, *when: int) -> float:
    return datetime(*when, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[misc, arg-type]  # a date


def shown(cron: str, zone: str, begin: float, count: int) -> list[str]:
    ticks = ticks_after(Timing(cron=cron, timezone=zone), 0.0, begin)
    return [local(tick, zone) for tick in islice(ticks, count)]


@pytest.mark.promise("E6")
def test_a_time_that_the_clocks_skip_fires_at_the_next_one_that_exists() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", at("Europe/Berlin", 2026, 3, 28), 3) == [
        "28 02:30 +0100",
        "29 03:00 +0200",
        "30 02:30 +0200",
    ]
    assert shown("30 2 * * *", "America/New_York", at("America/New_York", 2026, 3, 7), 3) == [
        "07 02:30 -0500",
        "08 03:00 -0400",
        "09 02:30 -0400",
    ]
    # Lord Howe moves its clocks by half an hour.
    assert shown("15 2 * * *", "Australia/Lord_Howe", at("Australia/Lord_Howe", 2026, 10, 3), 3) == [
        "03 02:15 +1030",
        "04 02:30 +1100",
        "05 02:15 +1100",
    ]


@pytest.mark.promise("E6")
def test_a_time_that_the_clocks_repeat_fires_once() -> None:
    assert shown("30 2 * * *", "Europe/Berlin", at("Europe/Berlin", 2026, 10, 24), 3) == [
        "24 02:30 +0200",
        "25 02:30 +0200",
        "26 02:30 +0100",
    ]
    assert shown("30 1 * * *", "America/New_York", at("America/New_York", 2026, 10, 31), 3) == [
        "31 01:30 -0400",
        "01 01:30 -0400",
        "02 01:30 -0500",
    ]
    assert shown("45 1 * * *", "Australia/Lord_Howe", at("Australia/Lord_Howe", 2026, 4, 4), 3) == [
        "04 01:45 +1100",
        "05 01:45 +1100",
        "06 01:45 +1030",
    ]


@pytest.mark.promise("E6")
def test_every_half_hour_stays_half_an_hour_while_the_clocks_are_changed() -> None:
    for zone, day in (
        ("Europe/Berlin", (2026, 3, 29)),
        ("Europe/Berlin", (2026, 10, 25)),
        ("America/New_York", (2026, 3, 8)),
        ("America/New_York", (2026, 11, 1)),
        ("Australia/Lord_Howe", (2026, 4, 5)),
        ("Australia/Lord_Howe", (2026, 10, 4)),
    ):
        ticks = list(islice(ticks_after(Timing(cron="*/30 * * * *", timezone=zone), 0.0, at(zone, *day)), 20))
        assert {later - tick for tick, later in pairwise(ticks)} == {1800.0}, zone


@pytest.mark.promise("E6")
@given(
    minute=st.sampled_from(["*", "*/7", "*/30", "0", "15", "0,30", "10-20"]),
    hour=st.sampled_from(["*", "*/2", "1", "2", "2,3", "1-3"]),
    zone=st.sampled_from(ZONES),
    start=starts,
)
def test_no_tick_is_lost_or_invented_whatever_the_clocks_do(minute: str, hour: str, zone: str, start: float) -> None:
    """Beside a count of all minutes, each of which either matches or does not."""
    tz, timing = ZoneInfo(zone), Timing(cron=f"{minute} {hour} * * *", timezone=zone)
    minutes = {one for one in range(60) if matches(minute, one)}
    hours = {one for one in range(24) if matches(hour, one)}
    expected = set()
    first = (start // 60 + 1) * 60
    for number in range(36 * 60):
        instant = first + number * 60.0
        clock = datetime.fromtimestamp(instant, tz)
        if clock.minute in minutes and clock.hour in hours:
            expected.add(instant)
    end = first + 36 * 3600.0
    found = [tick for tick in islice(ticks_after(timing, 0.0, start), 3000) if tick < end]
    assert found == sorted(set(found))
    if minute.startswith("*") or hour.startswith("*"):
        assert set(found) == expected
        return
    # A time of day that is repeated fires the first time, and one that is skipped as soon as the clocks go on.
    once = {instant for instant in expected if datetime.fromtimestamp(instant, tz).fold == 0}
    assert once <= set(found)
    for tick in set(found) - once:
        clock = datetime.fromtimestamp(tick, tz)
        assert clock.utcoffset() != datetime.fromtimestamp(tick - 1, tz).utcoffset(), "where the clocks went on"


def matches(field: str, value: int) -> bool:
    if field == "*":
        return True
    if field.startswith("*/"):
        return value % int(field[2:]) == 0
    if "-" in field:
        low, high = map(int, field.split("-"))
        return low <= value <= high
    return value in map(int, field.split(","))


TIMINGS = st.one_of(
    st.builds(
        Timing,
        cron=st.sampled_from(["*/5 * * * *", "30 2 * * *", "0 0 L * *", "0 9 * * MON-FRI", "15 3 29 2 *", "@hourly"]),
        timezone=st.sampled_from(ZONES),
    ),
    st.builds(Timing, every=st.one_of(st.integers(1, 10**6).map(float), st.floats(1, 1e6).map(lambda s: round(s, 3)))),
    st.builds(Timing, at=instants),
)


@pytest.mark.promise("E6")
@given(TIMINGS, starts, st.floats(0, 1))
def test_ticks_increase_and_do_not_depend_on_where_one_begins_to_count(
    timing: Timing, start: float, part: float
) -> None:
    anchor = start - 12_345
    ticks = list(islice(ticks_after(timing, anchor, start), 5))
    assert all(tick > start for tick in ticks)
    assert ticks == sorted(set(ticks))
    for tick, later in pairwise(ticks):
        between = tick + part * (later - tick)
        assert tick_after(timing, anchor, min(between, later - 1e-3)) == later
    if ticks:
        assert tick_after(timing, anchor, ticks[0] - 1e-3) == ticks[0]


@given(st.floats(1, 1e5).map(lambda seconds: round(seconds, 3)), st.integers(1, 10**6))
def test_an_interval_does_not_drift(every: float, number: int) -> None:
    anchor = 1_700_000_000.0
    tick = tick_after(Timing(every=every), anchor, anchor + (number - 0.5) * every)
    assert tick is not None
    assert abs(tick - (anchor + number * every)) <= 0.0006


@given(st.text(min_size=1, max_size=20), instants, st.floats(0, 1e6))
def test_jitter_is_the_same_for_everyone_and_never_too_long(name: str, tick: float, jitter: float) -> None:
    due = due_at(name, tick, jitter)
    assert due == due_at(name, tick, jitter)
    assert tick - 0.001 <= due <= tick + jitter + 0.001


def test_jitter_spreads_the_ticks() -> None:
    delays = [due_at("nightly", tick, 300.0) - tick for tick in (number * DAY for number in range(1000))]
    assert min(delays) < 5
    assert max(delays) > 295
    assert 140 < sum(delays) / len(delays) < 160


def test_the_shortest_time_between_ticks() -> None:
    assert shortest_interval(Timing(cron="0 9,17 * * *"), 0.0) == 8 * 3600
    assert shortest_interval(Timing(every=90.0), 0.0) == 90
    assert shortest_interval(Timing(at=1.0), 0.0) is None


def test_a_schedule_of_leap_days_and_one_that_ends_with_the_calendar() -> None:
    leap = ticks_after(Timing(cron="0 0 29 2 *"), 0.0, datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    assert [datetime.fromtimestamp(tick, UTC).year for tick in islice(leap, 3)] == [2028, 2032, 2036]
    end = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert tick_after(Timing(cron="* * * * *"), 0.0, end.timestamp()) is None
