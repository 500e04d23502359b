"""How a log lies in the store: what is written together shares a row, and the lines are counted through."""

import asyncio
from pathlib import Path

import pytest

import redrive
from redrive import Workflow, action, workflow
from redrive.flows.events import read_turn
from redrive.stores.records import EventRow
from redrive.worker.event_rows import lines_of
from redrive.worker.journal import LARGE


@action(name="rows.measure")
async def measure(text: str) -> int:
    return len(text)


@workflow(name="rows.InTurn")
class InTurn(Workflow):
    async def run(self) -> int:
        return await measure("a") + await measure("ab")


@workflow(name="rows.AtOnce")
class AtOnce(Workflow):
    async def run(self, calls: int, size: int) -> int:
        return sum(await asyncio.gather(*(measure("x" * size) for _ in range(calls))))


async def rows_of(address: str, definition: type[Workflow], *arguments: int) -> list[EventRow]:
    async with redrive.open(address) as app:
        flow = await app.start(definition.call(*arguments))
        await flow.result(timeout=30)
        rows = (await app.store.read_events([flow.id]))[flow.id]
        lines = await app.read_lines(flow.id)
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert lines_of(rows) == lines
    return rows


@pytest.mark.promise("A13")
def test_an_outcome_and_what_follows_from_it_share_a_row(tmp_path: Path) -> None:
    rows = asyncio.run(rows_of(f"sqlite:///{tmp_path}/app.db", InTurn))
    assert [[type(event).__name__ for event in read_turn(row.body)] for row in rows] == [
        ["ItemStarted"],
        ["ItemCompleted", "ItemStarted"],
        ["ItemCompleted", "FlowCompleted"],
    ]
    assert [row.seq for row in rows] == [1, 3, 5]


def test_no_row_grows_without_end(tmp_path: Path) -> None:
    size = LARGE // 3
    rows = asyncio.run(rows_of(f"sqlite:///{tmp_path}/app.db", AtOnce, 20, size))
    assert len(rows) > 5
    assert max(len(row.body) for row in rows) < LARGE + 2 * size
