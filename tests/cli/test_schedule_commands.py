"""`redrive schedules`."""

import pytest
from tests.cli.test_durable_commands import SHOP, Command, run, started, store

__all__ = ["run", "store"]  # fixtures

ORDER = (f"{SHOP}:CliOrder", "--input", '{"user": "u1"}')


@pytest.mark.promise("E6")
def test_a_schedule_is_added_shown_paused_triggered_and_deleted(run: Command) -> None:
    added = run("schedules", "add", "nightly", *ORDER, "--cron", "0 2 * * *")
    assert added.out.startswith("Schedule nightly is active: workflow:")
    assert added.out.count("  next     ") == 5
    (listed,) = run("schedules", "--json").data["schedules"]
    assert (listed["name"], listed["state"], listed["cron"], listed["started"]) == ("nightly", "active", "0 2 * * *", 0)
    assert listed["next_at"].endswith("T02:00:00.000Z")
    assert "nightly" in run("schedules").out
    assert len(run("schedules", "show", "nightly", "--ticks", "9", "--json").data["next_ticks"]) == 9
    assert run("schedules", "pause", "nightly", "--why", "holidays", "--by", "ann").out == "Paused schedule nightly.\n"
    assert "paused by ann" in run("schedules", "show", "nightly").out
    assert "paused already" in run("schedules", "pause", "nightly", "--why", "again").out
    assert run("schedules", "resume", "nightly", "--why", "back").out == "Resumed schedule nightly.\n"
    flow_id = run("schedules", "trigger", "nightly", "--why", "now").out.strip()
    assert "begun    by schedule nightly, by hand at " in run("explain", flow_id).out
    week = ("--from", "2025-01-01", "--to", "2025-01-08T00:00Z", "--why", "a new report")
    assert run("schedules", "backfill", "nightly", *week).out == "Started 7 flows; 0 ticks had theirs already.\n"
    again = run("schedules", "backfill", "nightly", *week, "--json").data
    assert (again["started"], again["existing"]) == ([], 7)
    assert run("schedules", "delete", "nightly", "--why", "replaced").out == "Deleted schedule nightly.\n"
    assert run("schedules").out == "There are no schedules.\n"
    actions = [entry["action"] for entry in run("audit", "--target", "nightly", "--json").data["entries"]]
    verbs = ("delete", "backfill", "backfill", "trigger", "resume", "pause", "pause", "set")
    assert actions == [f"schedule.{verb}" for verb in verbs]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("add", "n", *ORDER, "--cron", "0 25 * * *"),
            "'25' is not a valid hour",
        ),
        (("add", "n", *ORDER), "nothing says when it is due"),
        (("add", "n", *ORDER, "--at", "soon"), "--at: 'soon' is not a time"),
        (("add", "n", *ORDER, "--every", "1h", "--tag", "x"), "write NAME=TEXT"),
        (("show", "nightli"), "there is no schedule 'nightli'"),
        (("trigger", "nightly", "--why", "now"), "there is no schedule 'nightly'"),
        (("pause", "nightly"), "--why is missing"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Command, arguments: tuple[str, ...], told: str) -> None:
    started(run)
    assert told in run("schedules", *arguments).refused()
