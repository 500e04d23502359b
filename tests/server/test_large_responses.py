"""Flows with very many items are shown and explained outside the event loop, and encoded in pieces."""

import threading
from typing import Any

import msgspec
import pytest
from tests.server.serving import serving

from redrive import Graph, action
from redrive.explain import store_reader
from redrive.explain.explain_flow import explain_flow
from redrive.flows.graphs.graph import register_graph
from redrive.server.contract import large_responses
from redrive.server.contract.large_responses import encode_in_pieces


@action(name="srv_each")
async def each(n: int) -> int:
    return n


class Entry(msgspec.Struct, omit_defaults=True, tag="entry"):
    n: int = 0
    more: list[Any] = []


class Whole(msgspec.Struct, omit_defaults=True):
    name: str
    entries: list[Entry]
    few: tuple[Entry, ...] = ()
    nothing: list[int] = []


def test_pieces_are_the_same_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_responses, "ENCODED_AT_ONCE", 3)
    for count in range(12):
        entries = [Entry(n, list(range(n))) for n in range(count)]
        whole = Whole("x", entries, few=(Entry(1, list(entries)), Entry()))
        assert encode_in_pieces(whole) == msgspec.json.encode(whole)


@pytest.mark.promise("X8")
def test_a_long_flow_is_explained_in_a_thread_and_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = {"n": {"type": "integer", "for_each": True, "from": "ns"}}
    register_graph(Graph("srv_many").step("each", each, inputs=inputs, outputs={"out": "any"}))
    threads: set[str] = set()
    explain, encode = explain_flow, large_responses._encode
    longest: list[int] = []

    def noted(*args: Any) -> Any:
        threads.add(threading.current_thread().name)
        return explain(*args)

    def measured(value: Any) -> bytes:
        longest.append(len(value) if isinstance(value, list) else 0)
        threads.add(threading.current_thread().name)
        return encode(value)

    monkeypatch.setattr(store_reader, "explain_flow", noted)
    monkeypatch.setattr(large_responses, "_encode", measured)
    with serving() as server:
        flow_id = server.start("graph:srv_many", {"ns": list(range(1_500))})
        flow = server.finished(flow_id)
        assert [len(step["items"]) for step in flow["steps"]] == [1_500]
        said = server.client.get(f"/v1/flows/{flow_id}/explain").json()
        assert sum(entry["type"] == "item" for entry in said["timeline"]) == 1_500
    assert threads
    assert all(name.startswith("redrive-render") for name in threads)
    assert max(longest) <= large_responses.ENCODED_AT_ONCE
