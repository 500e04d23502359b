"""What shows all flows together: the overview, activity, dependencies, definitions, groups and filters."""

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.server.serving import Serving, problem, serving

from redrive import RetryPolicy, action
from redrive.stores.activity import ActivityRow
from redrive.stores.leases import NewWorker
from redrive.stores.worker_reports import DependencyState, HeldLoop, ReportBody, SlotUse, WorkerReport

LATER = RetryPolicy(attempts=4, exception_types=(ConnectionError,), backoff_seconds=3600, jitter=0)
WHY = {"why": "they asked for it", "by": "anna"}


@action(name="seen_away", dependency="bank", retry=LATER)
async def away(order: str = "17") -> str:
    raise ConnectionError("the bank is away")


@action(name="seen_broken", dependency="post")
async def broken(order: str = "17") -> str:
    raise PermissionError(f"no stamps for {order}")


@action(name="seen_fine")
async def fine() -> str:
    return "done"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as shared:
        for definition, inputs in (("away", {}), ("away", {}), ("broken", {"order": "SEVENTEEN"}), ("fine", {})):
            shared.start(f"action:seen_{definition}", inputs, key=f"{definition}-{time.monotonic_ns()}")
        shared.until(lambda: look(shared, "overview"), lambda seen: seen["retrying"] == 2 and seen["dead"] == 1)
        shared.until(lambda: look(shared, "activity"), lambda seen: attempts(seen) == (1, 2, 1))
        yield shared


def look(server: Serving, path: str, **query: Any) -> Any:
    answer = server.client.get(f"/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def attempts(activity: Any) -> tuple[int, ...]:
    names = ("succeeded", "retried", "gave_up")
    return tuple(sum(sum(series[name]) for series in activity["series"]) for name in names)


@pytest.mark.promise("V1")
def test_the_overview_says_what_fails_what_waits_and_what_comes_next(server: Serving) -> None:
    seen = look(server, "overview")
    assert (seen["counts"]["waiting"] + seen["counts"]["running"], seen["counts"]["failed"]) == (2, 1)
    (wait,) = seen["waits"]
    assert (wait["waits_for"], wait["count"]) == ("backoff", 2)
    assert wait["next_at"] <= wait["last_at"]
    assert [
        (one["name"], one["retrying"], one["waiting"], one["dead"]) for one in seen["problems"]["by_dependency"]
    ] == [
        ("bank", 2, 0, 0),
        ("post", 0, 0, 1),
    ]
    assert seen["problems"]["by_definition"] == [
        {"definition": "action:seen_away", "retrying": 2, "dead": 0},
        {"definition": "action:seen_broken", "retrying": 0, "dead": 1},
    ]
    assert seen["problems"]["by_reason"] == [{"waits_for": "backoff", "error_type": "ConnectionError", "count": 2}]
    (coming,) = seen["next"]
    assert (coming["at"], coming["count"]) == (wait["next_at"], 2)
    assert coming["what"] == "2 steps are tried again after a backoff"
    assert seen["workers"] == {"alive": 1, "stale": 0, "holding_loop": 0}
    assert [(queue["name"], queue["depth"], queue["paused"]) for queue in seen["queues"]] == [("default", 2, False)]
    assert [sum(seen["sparkline"][name]) for name in ("succeeded", "retried", "gave_up")] == [1, 2, 1]
    assert len(seen["sparkline"]["minutes"]) == 60


def test_activity_comes_as_series(server: Serving) -> None:
    seen = look(server, "activity", by="dependency", minutes=5)
    assert len(seen["minutes"]) == 5
    assert [minute % 60 for minute in seen["minutes"]] == [0] * 5
    found = {series["name"]: attempts({"series": [series]}) for series in seen["series"]}
    assert found == {"bank": (0, 2, 0), "post": (0, 0, 1), "": (1, 0, 0)}
    (only,) = look(server, "activity", definition="action:seen_fine")["series"]
    assert attempts({"series": [only]}) == (1, 0, 0)
    assert look(server, "activity", dependency="nobody")["series"] == []
    problem(server.client.get("/v1/activity", params={"minutes": 10_000}), 400)


@pytest.mark.promise("V1")
def test_a_listed_flow_says_what_it_waits_for(server: Serving) -> None:
    flows = look(server, "flows", retrying="true")["flows"]
    assert len(flows) == 2
    for flow in flows:
        waits = flow["waits"]
        assert (waits["waits_for"], waits["step"], waits["attempt"], waits["of"]) == ("backoff", "seen_away", 2, 4)
        assert (waits["error_type"], waits["dependency"]) == ("ConnectionError", "bank")
        assert waits["reason"] == (
            "attempt 2 of 4 of seen_away after ConnectionError waits: exponential backoff from 1h"
        )
        assert waits["until"] > waits["since"]
    later = server.start("action:seen_fine", delay=3600)
    assert server.flow(later)["status"] == "waiting"
    (found,) = look(server, "flows", text=later)["flows"]
    assert (found["waits"]["waits_for"], found["waits"]["until"]) == ("start", found["start_at"])
    server.client.post(f"/v1/flows/{later}/cancel", json={**WHY, "force": True})
    server.finished(later)


def test_flows_are_filtered_and_counted(server: Serving) -> None:
    def ids(**query: Any) -> int:
        found = len(look(server, "flows", **query)["flows"])
        assert look(server, "flows/count", **query) == {"count": found, "more": False}
        return found

    assert ids(waits_for="backoff") == 2
    assert ids(waits_for="circuit") == 0
    assert ids(dependency="post") == 1
    assert ids(error="ConnectionError", dependency="bank") == 2
    assert ids(error="PermissionError") == 1
    assert ids(text="seventeen") == 1
    assert ids(text="AWAY-") == 2
    assert ids(created_after="2100-01-01T00:00:00Z") == 0
    assert ids(created_before="2100-01-01T00:00:00Z", status="failed") == 1
    problem(server.client.get("/v1/flows", params={"created_after": "2100-01-01T00:00:00"}), 400)
    problem(server.client.get("/v1/flows", params={"waits_for": "godot"}), 400)


@pytest.mark.promise("X10")
def test_messages_are_searched_only_by_those_who_may_see_them() -> None:
    with serving() as server:
        server.finished(server.start("action:seen_broken", {"order": "SEVENTEEN"}))
        admin, board = (server.key(role) for role in ("read:payload", "read"))
        for key, count in ((admin, 1), (board, 0)):
            headers = {"Authorization": f"Bearer {key}"}
            for path in ("/v1/flows/count", "/v1/flows"):
                found = server.client.get(path, params={"text": "seventeen"}, headers=headers).json()
                assert found.get("count", len(found.get("flows", ()))) == count
        groups = server.client.get("/v1/dead-letters/groups", headers={"Authorization": f"Bearer {board}"})
        assert "SEVENTEEN" not in groups.text


def test_dead_letters_are_grouped(server: Serving) -> None:
    (group,) = look(server, "dead-letters/groups")["groups"]
    assert (group["step"], group["dependency"], group["kind"]) == ("seen_broken", "post", "permanent")
    assert (group["error_type"], group["count"], group["first_at"]) == ("PermissionError", 1, group["last_at"])
    assert "SEVENTEEN" in group["example"]["message"]
    assert look(server, "dead-letters/groups", dependency="bank")["groups"] == []
    assert look(server, "dead-letters/groups", definition="seen_broken")["groups"] == [group]


def test_definitions_say_who_runs_them_and_how_their_steps_fare(server: Serving) -> None:
    found = {one["name"]: one for one in look(server, "definitions")["definitions"]}
    away_now = found["action:seen_away"]
    assert (away_now["kind"], away_now["workers"], away_now["flows"]) == ("action", 1, {"active": 2, "dead": 0})
    (step,) = away_now["steps"]
    assert (step["name"], step["retried"], step["dependency"], step["policy_from"]) == (
        "seen_away",
        2,
        "bank",
        "action",
    )
    assert "attempts" in step["policy"]
    assert found["action:seen_broken"]["flows"] == {"active": 0, "dead": 1}
    assert found["action:seen_fine"]["steps"][0]["mean_seconds"] is not None


def test_a_circuit_is_opened_and_closed_by_hand(server: Serving) -> None:
    answer = server.client.post("/v1/dependencies/mail/open", json=WHY)
    assert answer.status_code == 202
    assert answer.json()["order"]["order"] == "open"

    def of_mail() -> Any:
        return next(one for one in look(server, "dependencies")["dependencies"] if one["name"] == "mail")

    seen = server.until(of_mail, lambda one: one["phase"] == "open")
    assert (seen["order"]["why"], seen["workers"][0]["probe_at"]) == ("they asked for it", None)
    (held,) = (one for one in look(server, "overview")["problems"]["by_dependency"] if one["name"] == "mail")
    assert (held["held"], held["probe_at"]) == (True, None)
    assert server.client.post("/v1/dependencies/mail/close", json=WHY).status_code == 202
    assert server.until(of_mail, lambda one: one["phase"] != "open")["order"]["order"] == "close"
    problem(server.client.post("/v1/dependencies/mail%07/open", json=WHY), 422)
    audit = server.client.get("/v1/audit", params={"target": "mail"}).json()["entries"]
    assert [entry["action"] for entry in audit] == ["dependency.close", "dependency.open"]


def test_dependencies_say_what_waits_for_them(server: Serving) -> None:
    found = {one["name"]: one for one in look(server, "dependencies")["dependencies"]}
    bank = found["bank"]
    assert (bank["phase"], bank["retrying"], bank["waiting"], bank["dead"]) == ("closed", 2, 0, 0)
    assert sum(bank["sparkline"]["retried"]) == 2
    assert bank["workers"][0]["failures"] == 2
    assert (found["post"]["dead"], found["post"]["order"]) == (1, None)


def test_workers_say_what_they_told_of_themselves() -> None:
    with serving(worker=False) as server:
        new = NewWorker(name="host:1", definitions=("action:seen_fine",))
        lease = server.ask(lambda app: app.store.acquire_lease(new, 60.0))
        assert look(server, "workers")["workers"][0]["report"] is None
        now = time.time()
        body = ReportBody(
            version="1",
            pid=1,
            host="host",
            began_at=now,
            slots={"loop": SlotUse(10, 3, 2)},
            running=[],
            held_loop=HeldLoop(seconds=4.0, at=now, flow_id="f", step="s", place="a.py:1"),
            dependencies=[DependencyState(name="bank", phase="open", since=now, probe_at=now + 30)],
        )
        report = WorkerReport(epoch=lease.epoch, at=now, body=msgspec.json.encode(body).decode())
        counted = ActivityRow(at=now - now % 60, definition="d", step="s", outcome="gave_up", count=7)
        server.ask(lambda app: app.store.report(lease, report, [counted]))
        told = look(server, "workers")["workers"][0]["report"]
        assert told["slots"] == {"loop": {"size": 10, "busy": 3, "waiting": 2}}
        assert (told["held_loop"]["place"], told["held_loop"]["seconds"]) == ("a.py:1", 4.0)
        seen = look(server, "overview")
        assert seen["workers"] == {"alive": 1, "stale": 0, "holding_loop": 1}
        (known,) = seen["problems"]["by_dependency"]
        assert (known["name"], known["phase"]) == ("bank", "open")
        assert known["probe_at"] is not None
        assert not known["held"]
        # A worker of another version may tell it in another way.
        other = WorkerReport(epoch=lease.epoch, at=now, body='{"version": 2}')
        server.ask(lambda app: app.store.report(lease, other, []))
        assert look(server, "workers")["workers"][0]["report"] is None
        assert look(server, "overview")["workers"]["holding_loop"] == 0


@pytest.mark.promise("V1")
def test_explain_foresees_attempts_and_leaves_out_the_middle(server: Serving) -> None:
    flow_id = look(server, "flows", retrying="true")["flows"][0]["id"]
    seen = look(server, f"flows/{flow_id}/explain")
    (item,) = [entry for entry in seen["timeline"] if entry["type"] == "item"]
    schedule = item["schedule"]
    assert [one["number"] for one in schedule["attempts"]] == [2, 3, 4]
    assert (schedule["ends"], schedule["gives_up_after"]) == ("exhausted", 4)
    assert schedule["gives_up_at"]["at"] >= schedule["attempts"][-1]["at"]["at"]
    whole = len(seen["events"])
    assert whole > 2
    short = look(server, f"flows/{flow_id}/explain", most=2)
    assert (len(short["events"]), short["elided_events"]) == (2, whole - 2)
    problem(server.client.get(f"/v1/flows/{flow_id}/explain", params={"most": 1}), 400)


def test_a_dependency_with_a_slash_in_its_name_is_opened_by_its_path(server: Serving) -> None:
    for name in ("eu/payments", "100%2F/a?b#c"):
        path = f"/v1/dependencies/{quote(name, safe='')}"
        answer = server.client.post(f"{path}/open", json={"why": "a test"})
        assert (answer.status_code, answer.json()["name"]) == (202, name)
        assert name in {one["name"] for one in look(server, "dependencies")["dependencies"]}
        assert server.client.post(f"{path}/close", json={"why": "a test"}).status_code == 202
    # A slash that is sent as one still parts the path.
    problem(server.client.post("/v1/dependencies/eu/payments/open", json={"why": "a test"}), 404)
