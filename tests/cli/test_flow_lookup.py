"""Commands find the flow that is meant: by its id, its key, or the first characters of its id."""

import asyncio
import sqlite3

import pytest
from tests.cli.test_durable_commands import NO_FLOW, Command, dead, order, run, started, store, work_off

import redrive
from redrive.stores.records import NewFlow

__all__ = ["run", "store"]  # fixtures


def add(*flows: tuple[str, str, str | None]) -> None:
    """Add flows with these ids, definitions and keys."""

    async def add_all() -> None:
        async with redrive.open(worker=False) as app:
            new = [
                NewFlow(id=one, definition=definition, input="{}", created_at=1.0, start_at=1.0, key=key)
                for one, definition, key in flows
            ]
            await app.store.add_flows(new)

    asyncio.run(add_all())


def test_a_flow_is_found_by_its_key_or_the_beginning_of_its_id(run: Command) -> None:
    flow_id = started(run, "--key", "order-17")
    for given in (flow_id, flow_id[:8], flow_id[:13].upper(), "order-17"):
        explained = run("explain", given, "--json")
        assert (explained.code, explained.data["flow_id"]) == (0, flow_id)
    work_off()
    assert run("flows", "result", "order-17").data == {"user": "u1", "paid": "paid 100"}
    assert run("flows", "steps", flow_id[:10]).code == 0


def test_what_is_done_names_the_flow_by_its_id(run: Command) -> None:
    flow_id = started(run, "--key", "order-17")
    asked = run("flows", "pause", flow_id[:9], "--why", "later")
    assert asked.out.startswith(f"Asked flow {flow_id} to pause;")
    assert run("flows", "cancel", "order-17", "--why", "twice", "--json").data["id"] == flow_id
    targets = [entry["target"] for entry in run("audit", "--json").data["entries"]]
    assert targets == [flow_id, flow_id]


def test_dead_letters_are_settled_by_key_or_prefix(run: Command) -> None:
    first = dead(run)
    second = started(run, "--key", "order-18", failures=9)
    work_off()
    assert run("dead", "show", first, "--json").data["dead_letter"]["flow_id"] == first
    assert run("dead", "discard", "order-18", first, "--why", "old", "--json").data["settled"] == [second, first]
    assert "is no longer dead" in run("dead", "redrive", "order-18", "--why", "x").refused()


def test_several_flows_that_could_be_meant_are_named(run: Command) -> None:
    add(*((f"0197f2a4-{number}", "action:a", None) for number in range(7)), ("0198", "action:a", None))
    refused = run("explain", "0197").refused()
    assert refused.startswith("'0197' matches the ids of several flows: 0197f2a4-6 (action:a, ready); ")
    assert refused.endswith("; and more; give more characters")
    assert refused.count("0197f2a4-") == 5
    assert run("explain", "0197f2a4-6").code == run("explain", "0198").code == 0


def test_a_key_of_several_definitions_is_ambiguous_and_an_id_wins(run: Command) -> None:
    add(("a1", "action:a", "k"), ("b1", "action:b", "k"), ("k2", "action:c", "a1"), ("k3", "action:c", "other"))
    refused = run("flows", "cancel", "k", "--why", "x").refused()
    assert refused == (
        "'k' is the key of several flows: b1 (action:b, ready); a1 (action:a, ready); name the one you mean by its id"
    )
    assert run("explain", "a1", "--json").data["flow_id"] == "a1", "an id goes before a key"
    assert run("explain", "other", "--json").data["flow_id"] == "k3"


@pytest.mark.parametrize("given", [NO_FLOW, "nothing", "%", "", "0197_"])
def test_an_unknown_flow_says_how_to_find_one(run: Command, given: str) -> None:
    add(("0197f2a4", "action:a", None))
    assert run("explain", given).refused().endswith("list them with: redrive flows")


def test_finding_by_prefix_and_by_key_uses_an_index(run: Command, store: str) -> None:
    assert run("start", *order()).code == 0
    connection = sqlite3.connect(store.removeprefix("sqlite:///"))
    plans = [
        " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN SELECT * FROM flows WHERE {one}"))  # noqa: S608 - our own words
        for one in ("id >= '01' AND id < '01z' ORDER BY id DESC LIMIT 6", "key = 'k' ORDER BY id DESC LIMIT 6")
    ]
    connection.close()
    assert "(id>? AND id<?)" in plans[0]
    assert "USING INDEX flows_key (key=?)" in plans[1]
