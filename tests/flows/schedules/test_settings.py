"""What a schedule refuses, each in one line that says what to write instead."""

import contextlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import RedriveError, ScheduleError
from redrive.flows.schedules.settings import check_name, schedule_spec
from redrive.flows.values.json_limits import LARGE_JSON


def refused(**settings: Any) -> str:
    with pytest.raises((ScheduleError, TypeError)) as caught:
        schedule_spec("workflow:Report", "{}", **settings)
    (line,) = str(caught.value).splitlines()
    return line


@pytest.mark.promise("E6")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"cron": "0 25 * * *"}, "'25' is not a valid hour; use 0 to 23"),
        ({"cron": "61 * * * *"}, "'61' is not a valid minute; use 0 to 59"),
        ({"cron": "0 0 32 * *"}, "'32' is not a valid day-of-month"),
        ({"cron": "0 0 * 13 *"}, "'13' is not a valid month; use 1 to 12, or JAN to DEC"),
        ({"cron": "0 0 * * FUNDAY"}, "'FUNDAY' is not a valid day-of-week"),
        ({"cron": "0 0 * * 5L/2"}, "'5L/2' is not a valid day-of-week"),
        ({"cron": "0 2 * *"}, "has 4 fields; write five, minute hour day-of-month month day-of-week"),
        ({"cron": "0 0 2 * * *"}, "has 6 fields; write five"),
        ({"cron": "@nightly"}, "or one of @yearly"),
        ({"cron": "0 0 30 2 *"}, "never fires"),
        ({"cron": ""}, "use an expression such as"),
        ({"cron": "0 0 1-" + "9" * 500 + " * *"}, "is not allowed"),
        ({"cron": "0 2 * * *", "timezone": "Europe/Berln"}, "did you mean 'Europe/Berlin'?"),
        ({"cron": "0 2 * * *", "timezone": "berlin"}, "did you mean 'Europe/Berlin'?"),
        ({"cron": "0 2 * * *", "timezone": "../../etc/passwd"}, "is not a time zone"),
        ({"cron": "0 2 * * *", "timezone": "Europe"}, "is not a time zone"),
        ({"cron": "0 2 * * *", "every": "10m"}, "cron and every are given; use one of"),
        ({}, "nothing says when it is due; use one of"),
        ({"every": "0.5s"}, "use one second to ten years"),
        ({"every": "soon"}, "every: "),
        ({"every": "1d", "timezone": "Europe/Berlin"}, "timezone: 'Europe/Berlin' is for cron"),
        ({"at": datetime(2026, 1, 1)}, "use a datetime with a time zone"),  # noqa: DTZ001 - which is refused
        ({"every": "10m", "jitter": "11m"}, "jitter: '11m' is longer than the shortest time between two ticks, 600 s"),
        ({"cron": "0,10 * * * *", "jitter": "11m"}, "longer than the shortest time between two ticks, 600 s"),
        ({"every": "10m", "overlap": "skpi"}, "overlap: 'skpi' is not allowed; did you mean 'skip'?"),
        ({"every": "10m", "overlap": 3}, "use skip, queue, cancel, allow"),
        ({"every": "10m", "catch_up": "-1h"}, "catch_up: "),
        ({"every": "10m", "tags": {"tenant": 7}}, "tags: "),
        ({"evry": "10m"}, "'evry' is not a setting; did you mean 'every'?"),
    ],
)
def test_a_wrong_schedule_is_refused_in_one_line(settings: dict[str, Any], told: str) -> None:
    assert told in refused(**settings)


def test_a_large_input_is_refused() -> None:
    with pytest.raises(ScheduleError, match="store it elsewhere"):
        schedule_spec("workflow:Report", "x" * (LARGE_JSON + 1), every="1h")


@pytest.mark.parametrize("name", ["", " nightly", "a\nb", "x" * 201, 7, "\ud800"])
def test_a_wrong_name_is_refused(name: Any) -> None:
    with pytest.raises(ScheduleError, match="is not allowed as the name of a schedule"):
        check_name(name)


@given(st.one_of(st.text(), st.text("0123456789*/,-L#W JANMON@", max_size=30)), st.text(max_size=30))
def test_any_text_is_either_a_schedule_or_refused(cron: str, zone: str) -> None:
    for settings in ({"cron": cron}, {"cron": "0 2 * * *", "timezone": zone}):
        with contextlib.suppress(RedriveError):
            assert schedule_spec("workflow:Report", "{}", **settings).timing.cron  # type: ignore[arg-type]  # any text


def test_settings_become_seconds() -> None:
    at = datetime(2026, 11, 19, 4, 30, tzinfo=UTC)
    assert schedule_spec("workflow:Report", "{}", at=at).timing.at == at.timestamp()
    spec = schedule_spec("workflow:Report", "{}", every="10m", jitter="30s", catch_up="2h", tags={"b": "2", "a": "1"})
    assert (spec.timing.every, spec.jitter, spec.catch_up, spec.tags) == (600, 30, 7200, '{"a":"1","b":"2"}')
