"""`redrive queues` and `redrive workers`."""

import asyncio

import pytest
from tests.cli.test_durable_commands import Command, Ran, order, run, started, store, work_off

import redrive
from redrive.stores.leases import NewWorker

__all__ = ["run", "store"]  # fixtures


def test_a_queue_is_paused_and_resumed(run: Command) -> None:
    flow_id = started(run, "--queue", "mail")
    paused = run("queues", "pause", "mail", "--why", "the provider is down", "--by", "ann")
    assert paused.out == "Paused queue mail. To go on: redrive queues resume mail --why WHY\n"
    (queue,) = run("queues", "--json").data["queues"]
    pause = queue.pop("pause")
    assert (pause["by"], pause["why"]) == ("ann", "the provider is down")
    assert queue == {
        "name": "mail",
        **dict.fromkeys(("limit", "per_key", "rate", "key_rate", "aging")),
        "ready": 1,
        "waiting": 0,
        "due": 0,
        "running": 0,
        "retrying": 0,
        "paused": 0,
        "parked": 0,
    }
    explained = run("explain", flow_id).out
    assert "held: queue mail was paused by ann (the provider is down) at " in explained
    assert "redrive queues resume mail --why WHY" in explained
    cancelled = run("flows", "cancel", flow_id, "--why", "x")
    assert (
        "but its queue is paused, so nothing happens until you resume it: redrive queues resume mail" in cancelled.out
    )
    again = run("queues", "pause", "mail", "--why", "again", "--by", "bob")
    assert again.out.startswith("Queue mail was paused already: by ann ")
    assert run("queues", "resume", "mail", "--why", "back").out == "Resumed queue mail.\n"
    assert run("queues", "resume", "mail", "--why", "back").out == "Queue mail was not paused.\n"
    work_off()
    actions = [(one["action"], one["target"]) for one in run("audit", "--json").data["entries"]]
    assert actions.count(("queue.pause", "mail")) == actions.count(("queue.resume", "mail")) == 2


def test_the_table_of_queues(run: Command) -> None:
    started(run, "--queue", "mail")
    started(run, "--queue", "mail", "--delay", "2h")
    run("queues", "limit", "mail", "10")
    run("queues", "pause", "mail", "--why", "down", "--by", "ann")
    head, _, row = (line.split() for line in run("queues").out.strip().splitlines())
    assert head == [
        "queue",
        "ready",
        "waiting",
        "due",
        "running",
        "retrying",
        "paused",
        "parked",
        "limits",
        "queue",
        "paused",
    ]
    assert row[:10] == ["mail", "1", "1", "0", "0", "0", "0", "0", "limit", "10"]
    assert " ".join(row[10:]) == "by ann 0s ago (down)"


def test_a_queue_is_limited(run: Command) -> None:
    started(run)
    assert run("queues", "limit", "mail", "10").out == "Queue mail: limit 10, 0 running now.\n"
    assert run("queues", "limit", "mail", "2", "--json").data["queue"]["limit"] == 2
    assert run("queues", "limit", "mail", "none").out == "Queue mail: limit none, 0 running now.\n"
    assert [one["name"] for one in run("queues", "--json").data["queues"]] == ["default"]
    assert "to stop a queue: redrive queues pause" in run("queues", "limit", "mail", "0").refused()


@pytest.mark.promise("E8")
def test_a_queue_is_configured(run: Command) -> None:
    started(run)
    told = run("queues", "set", "mail", "--limit", "9", "--per-key", "2", "--rate", "100/m", "--aging", "10m").out
    assert told == "Queue mail: limit 9, 2 a key, rate 100/m, priority +1 each 10m.\n"
    assert (
        run("queues", "set", "mail", "--limit", "none", "--key-rate", "5/s", "--json").data["queue"]
        | {
            "limit": None,
            "per_key": 2,
            "rate": "100/m",
            "key_rate": "5/s",
            "aging": 600.0,
        }
        == run("queues", "--json").data["queues"][-1]
    )
    assert "2 a key, rate 100/m" in run("queues").out


@pytest.mark.promise("E8")
def test_a_start_names_its_tenant_and_for_how_long_its_key_is_unique(run: Command) -> None:
    options = ("--key", "k", "--unique-for", "10m", "--concurrency-key", "acme")
    flow_id = started(run, *options)
    assert started(run, *options) == flow_id
    assert started(run, "--key", "d", "--debounce", "30s") != flow_id
    assert "unique_for: it needs a key" in run("start", *order(0), "--unique-for", "10m").refused()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("queues", "set", "mail"), "name what to set: --limit, --per-key"),
        (("queues", "set", "mail", "--rate", "fast"), "--rate: 'fast' is not a rate; write how many in which time"),
        (("queues", "set", "mail", "--key-rate", "0/s"), "--key-rate: '0/s': use 1 to"),
        (("queues", "set", "mail", "--aging", "x"), "--aging: 'x'"),
        (("queues", "set", "mail", "--per-key", "0"), "'0' is not a limit"),
        (("queues", "pause", "mail"), "--why is missing"),
        (("queues", "resume", "mail", "--why", " "), "--why is missing"),
        (("queues", "pause", "a\nb", "--why", "x"), "queue: use a name of 1 to 200 characters"),
        (("queues", "limit", "mail", "-1"), "-1 is not a number that is allowed here: it is below 0"),
        (("queues", "limit", "mail", "many"), "'many' is not a limit; use a whole number from 1 to "),
        (("queues", "limit", "mail", "9" * 50), "is not a limit; use a whole number"),
        (("queues", "paus", "mail"), "no such command 'paus'; did you mean: redrive queues pause?"),
    ],
)
def test_bad_input_is_one_line(run: Command, arguments: tuple[str, ...], told: str) -> None:
    started(run)
    assert told in run(*arguments).refused()


def test_workers_are_listed(run: Command, store: str) -> None:
    started(run)
    assert run("workers").out == "No worker holds a lease; start one: redrive worker MODULE\n"

    async def play() -> tuple[Ran, Ran]:
        async with redrive.open(store, worker=False) as app:
            many = tuple(f"action:a{number}" for number in range(7))
            await app.store.acquire_lease(NewWorker(name="host-a:1", definitions=many, queues=("mail", "sms")), 60.0)
            await app.store.acquire_lease(NewWorker(name="host-b:2", definitions=("workflow:W",)), 0.01)
            await asyncio.sleep(0.05)
            return await asyncio.to_thread(run, "workers"), await asyncio.to_thread(run, "workers", "--json")

    table, data = asyncio.run(play())
    first, second = data.data["workers"]
    assert (first["name"], first["alive"], first["queues"], first["flows"]) == ("host-a:1", True, ["mail", "sms"], 0)
    assert 50 < first["lease_left"] <= 60
    assert (second["name"], second["alive"], second["queues"]) == ("host-b:2", False, None)
    assert "action:a0, action:a1, action:a2, action:a3, action:a4 and 2 more" in " ".join(table.out.split())
    lines = table.out.splitlines()
    assert any("host-b:2" in line and "dead" in line and "expired" in line for line in lines)


def test_a_queue_that_nothing_uses_is_changed_with_a_warning(run: Command) -> None:
    started(run, "--queue", "mail")
    paused = run("queues", "pause", "mial", "--why", "x", "--json")
    assert paused.err == (
        "redrive: no unfinished flow and no worker names queue mial; did you mean mail? known queues: default, mail\n"
    )
    assert (paused.data["changed"], paused.data["queue"]["retrying"]) == (True, 0)
    assert "names queue other; known queues: default, mail, mial\n" in run("queues", "limit", "other", "3").err
    assert "names queue nosuch; known queues: " in run("queues", "resume", "nosuch", "--why", "x").err
    assert run("queues", "pause", "mail", "--why", "x").err == ""
    assert run("queues", "resume", "mial", "--why", "x").err == ""


def test_doctor_warns_of_a_paused_queue_whose_flows_wait(run: Command) -> None:
    started(run, "--queue", "mail")
    run("queues", "pause", "mail", "--why", "down", "--by", "ann")
    run("queues", "pause", "default", "--why", "later", "--by", "ann")
    checks = {
        one["text"].partition(":")[0]: one for one in run("doctor", "--json").data if one["check"] == "queue paused"
    }
    assert (checks["mail"]["status"], checks["default"]["status"]) == ("warn", "ok")
    assert checks["mail"]["text"] == (
        "mail: paused by ann (down), 1 ready, 0 waiting; to go on: redrive queues resume mail --why WHY"
    )
