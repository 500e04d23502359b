"""Schedules over HTTP: put, listed, paused, triggered, filled back and deleted; wrong ones are refused in one line."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.server import shop  # noqa: F401 - registers what the flows run
from tests.server.serving import Serving, problem, serving

from redrive.stores.audit import AuditQuery

pytestmark = pytest.mark.promise("E6")
WHY = {"why": "the warehouse is closed", "by": "anna"}
NAP = {"workflow": "SrvNap", "inputs": {"seconds": 3600}}
YEARLY = {"flow": NAP, "timing": {"cron": "0 2 1 1 *", "timezone": "Europe/Berlin"}}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """A server without a worker: nothing falls due."""
    with serving(worker=False) as server:
        yield server


def set_schedule(server: Serving, name: str, **more: Any) -> Any:
    answer = server.client.put(f"/v1/schedules/{name}", json={**YEARLY, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def actions(server: Serving, name: str) -> list[str]:
    entries = server.ask(lambda app: app.store.list_audit_entries(AuditQuery()))
    return [one.action for one in entries if one.target == name]


def test_a_schedule_is_put_listed_shown_and_deleted(server: Serving) -> None:
    flow = {**NAP, "queue": "night", "priority": 3, "tags": {"tenant": "a"}}
    made = set_schedule(server, "a nightly", flow=flow, jitter="5m", overlap="queue")
    assert (made["definition"], made["queue"], made["priority"], made["tags"]) == (
        "workflow:SrvNap",
        "night",
        3,
        {"tenant": "a"},
    )
    assert made["timing"] == {"cron": "0 2 1 1 *", "timezone": "Europe/Berlin", "every": None, "at": None}
    assert (made["state"], made["overlap"], made["jitter"], len(made["next_ticks"])) == ("active", "queue", 300.0, 5)
    assert made["next_ticks"][0].endswith("-01-01T01:00:00Z")
    again = set_schedule(server, "a nightly", flow=flow, jitter="5m", overlap="queue")
    assert again["updated_at"] == made["updated_at"]
    set_schedule(server, "b once", timing={"at": "2099-01-01T00:00:00+01:00"})
    set_schedule(server, "c often", timing={"every": "10m"})
    page = server.client.get("/v1/schedules", params={"limit": 2}).json()
    assert [one["name"] for one in page["schedules"]] == ["a nightly", "b once"]
    assert page["schedules"][1]["timing"]["at"] == "2098-12-31T23:00:00Z"
    rest = server.client.get("/v1/schedules", params={"cursor": page["next"]}).json()
    assert [one["name"] for one in rest["schedules"]] == ["c often"]
    assert rest["next"] is None
    shown = server.client.get("/v1/schedules/a nightly", params={"ticks": 2}).json()
    assert len(shown["next_ticks"]) == 2
    assert problem(server.client.delete("/v1/schedules/a nightly"), 400)["parameter"] == "why"
    assert server.client.delete("/v1/schedules/a nightly", params=WHY).status_code == 204
    assert problem(server.client.get("/v1/schedules/a nightly"), 404)["parameter"] == "schedule"
    assert actions(server, "a nightly") == ["schedule.delete", "schedule.set", "schedule.set"]


def test_it_is_paused_and_resumed_with_the_reason(server: Serving) -> None:
    set_schedule(server, "closed")
    paused = server.client.post("/v1/schedules/closed/pause", json=WHY).json()
    assert (paused["state"], paused["next_at"], paused["next_ticks"]) == ("paused", None, [])
    assert (paused["pause"]["why"], "anna" in paused["pause"]["by"]) == (WHY["why"], True)
    again = server.client.post("/v1/schedules/closed/pause", json={"why": "again"}).json()
    assert again["pause"] == paused["pause"]
    resumed = server.client.post("/v1/schedules/closed/resume", json={**WHY, "why": "it is open"}).json()
    assert (resumed["state"], resumed["pause"], resumed["resumed"]["why"]) == ("active", None, "it is open")
    assert actions(server, "closed") == ["schedule.resume", "schedule.pause", "schedule.pause", "schedule.set"]


def test_it_is_triggered_and_filled_back_once(server: Serving) -> None:
    set_schedule(server, "reports", timing={"cron": "0 2 * * *"})
    answer = server.client.post("/v1/schedules/reports/trigger", json=WHY)
    assert answer.status_code == 201
    flow = server.client.get(answer.headers["Location"]).json()
    assert (flow["id"], flow["status"]) == (answer.json()["flow_id"], "ready")
    run = server.client.get("/v1/schedules/reports").json()["last_runs"][0]
    assert (run["flow_id"], run["status"], run["why"], "anna" in run["by"]) == (flow["id"], "ready", WHY["why"], True)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    span = {"begin": (today - timedelta(days=3)).isoformat(), "end": today.isoformat(), **WHY}
    done = server.client.post("/v1/schedules/reports/backfill", json=span).json()
    assert (len(done["started"]), done["existing"]) == (3, 0)
    again = server.client.post("/v1/schedules/reports/backfill", json=span).json()
    assert again == {"started": [], "existing": 3}
    assert actions(server, "reports")[:2] == ["schedule.backfill", "schedule.backfill"]


def test_what_is_wrong_is_named_in_one_line(server: Serving) -> None:
    set_schedule(server, "right")

    def refused(status: int = 422, **more: Any) -> Any:
        return problem(server.client.put("/v1/schedules/wrong", json={**YEARLY, **more}), status)

    assert refused(timing={"cron": "61 2 * * *"})["pointer"] == "/timing/cron"
    assert refused(timing={"cron": "0 2 * * *", "timezone": "Europe/Berln"})["pointer"] == "/timing/timezone"
    assert "one second to ten years" in refused(timing={"every": "0.5"})["detail"]
    assert "one of cron" in refused(timing={})["detail"]
    assert refused(400, timing={"at": "2099-01-01T00:00:00"})["pointer"] == "/timing/at"
    assert refused(400, overlap="both")["pointer"] == "/overlap"
    assert refused(jitter="ten")["pointer"] == "/jitter"
    assert refused(flow={"workflow": "Nobody"})["pointer"] == "/flow/workflow"
    assert refused(flow={**NAP, "key": "mine"})["pointer"] == "/flow/key"
    assert refused(flow={"goals": ["pack"]})["pointer"] == "/flow/goals"
    assert problem(server.client.get("/v1/schedules/wrong"), 404)
    for verb in ("pause", "resume", "trigger"):
        assert problem(server.client.post(f"/v1/schedules/wrong/{verb}", json=WHY), 404)["parameter"] == "schedule"
        assert problem(server.client.post(f"/v1/schedules/right/{verb}", json={}), 400)["pointer"] == "/why"
    backward = {"begin": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z", **WHY}
    assert problem(server.client.post("/v1/schedules/right/backfill", json=backward), 422)["pointer"] == "/begin"
    ahead = {"begin": "2026-01-02T00:00:00Z", "end": "2099-01-01T00:00:00Z", **WHY}
    assert problem(server.client.post("/v1/schedules/right/backfill", json=ahead), 422)["pointer"] == "/end"
    assert problem(server.client.get("/v1/schedules/a%0Ab"), 422)["parameter"] == "schedule"
