"""Starts the flows of the incident over HTTP, and waits until each is where the tests look for it."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
from tests.dashboard.hostile_text import SCRIPT

ORDERS = 12
MAILS, CUSTOMERS, PICTURES = 4, 3, 2
"""Dead letters, by what failed."""
THUMBNAILS = 30
IMPORTS = 5
PATIENCE = 60.0


class Incident(NamedTuple):
    """The ids of one flow of each kind."""

    order: str
    """Waits for payments, whose circuit is open."""
    restock: str
    """Waits because the warehouse said when to come back."""
    parcel: str
    """A graph of which one step is retried."""
    report: str
    """Runs for an hour."""
    reminder: str
    """Sleeps until a timer fires."""
    paused: str
    undeliverable: str
    """A dead letter."""


def start(client: httpx.Client, kind: str, name: str, inputs: dict[str, Any], **more: Any) -> str:
    answer = client.post("/v1/flows", json={kind: name, "inputs": inputs, **more})
    assert answer.status_code == 201, answer.text
    flow_id: str = answer.json()["id"]
    return flow_id


def begin_incident(client: httpx.Client) -> Incident:
    """Start everything, and return when it has gone wrong."""
    # First, because a worker may claim for a moment as it did before it heard of it.
    control(client, "/v1/queues/imports/pause", "the database is being moved")
    for table in ("customers", "invoices"):
        start(client, "workflow", "Migration", {"table": table}, key=f"migration-{table}")
    for number in range(THUMBNAILS):
        start(client, "action", "make_thumbnail", {"number": number})
    orders = [
        start(client, "workflow", "Order", {"order": f"o-{1700 + number}"}, key=f"order-{1700 + number}")
        for number in range(ORDERS)
    ]
    restocks = [start(client, "workflow", "Restock", {"order": f"o-{1800 + number}"}) for number in range(3)]
    parcel = start(client, "graph", "parcel", {"order": "o-1650", "lines": ["book", "pen", "lamp"]}, key="parcel-1650")
    for to in ("anna", "bert", SCRIPT, "dora"):
        undeliverable = start(client, "action", "send_mail", {"to": to})
    for name in ("cat.png", "dog.png"):
        start(client, "action", "resize_image", {"name": name})
    for customer in ("c-1", "c-2", "c-3"):
        start(client, "workflow", "Onboarding", {"customer": customer})
    report = start(client, "action", "write_report", {"month": "2026-10"}, key="report-2026-10")
    reminder = start(client, "workflow", "Reminder", {"hours": 6})
    paused = start(client, "workflow", "Reminder", {"hours": 2})
    control(client, f"/v1/flows/{paused}/pause", "the customer asked us to wait")
    for number in range(IMPORTS):
        start(client, "action", "import_row", {"number": number}, queue="imports")
    until(lambda: count(client, status="waiting", definition="workflow:Migration") == 2)
    # A message wakes them: their log is read, and no longer fits the code.
    for flow in client.get("/v1/flows", params={"definition": "workflow:Migration"}).json()["flows"]:
        control(client, f"/v1/flows/{flow['id']}/pause", "before the deploy")
    until(lambda: count(client, status="failed") == MAILS + CUSTOMERS + PICTURES)
    until(lambda: count(client, status="completed") == THUMBNAILS)
    until(lambda: count(client, status="parked") == 2)
    until(lambda: "circuit" in client.get(f"/v1/flows/{orders[-1]}/explain").text)
    return Incident(orders[0], restocks[0], parcel, report, reminder, paused, undeliverable)


def spoil(client: httpx.Client, *names: str) -> list[str]:
    """Start flows that fail for good, and return when they have."""
    flows = [start(client, "action", "spoil", {"name": name}) for name in names]
    until(lambda: all(status(client, flow) == "failed" for flow in flows))
    return flows


def begin_together(client: httpx.Client) -> None:
    """Add a batch that goes on, and a schedule that has skipped nothing yet. Repeating it changes nothing."""
    nap = {"workflow": "Reminder", "inputs": {"hours": 2}, "tags": {"tenant": "acme"}}
    batch = {"name": "night", "flows": [nap, {"action": "import_row", "inputs": {"number": 1}, "queue": "together"}]}
    assert client.post("/v1/batches", json=batch).is_success
    nightly = {"flow": nap, "timing": {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}}
    assert client.put("/v1/schedules/nightly", json=nightly).is_success


def status(client: httpx.Client, flow: str) -> str:
    found: str = client.get(f"/v1/flows/{flow}").json()["status"]
    return found


def tidy_up(client: httpx.Client) -> None:
    """Discard the dead letters of `spoil`: others count those of the night."""
    answer = client.post("/v1/dead-letters/discard", json={"filter": {"step": "spoil"}, "why": "tidying up"})
    assert answer.status_code == 200, answer.text


def control(client: httpx.Client, path: str, why: str) -> None:
    answer = client.post(path, json={"why": why, "by": "anna"})
    assert answer.status_code in (200, 202), answer.text


def count(client: httpx.Client, **filters: Any) -> int:
    return len(client.get("/v1/flows", params={"limit": 200, **filters}).json()["flows"])


def until(look: Callable[[], Any], patience: float = PATIENCE) -> None:
    limit = time.monotonic() + patience
    while not look():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.05)
