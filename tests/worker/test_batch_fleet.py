"""What follows a batch starts once, in a fleet of workers that are killed all the time."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.postgres_server import shared_server

import redrive
from redrive.stores.batches import BatchCounts
from redrive.stores.records import FlowQuery

WORKERS, FLOWS, KILLS = 4, 60, 12
PATIENCE = 90.0
WORKER = """
import asyncio, sys, redrive
from tests.worker.test_batch_fleet import Report, work

async def main():
    async with redrive.open(sys.argv[1], worker=False, lease=1.0) as app:
        await app.work()

asyncio.run(main())
"""


@redrive.action(name="batch_fleet.work")
async def work(n: int) -> int:
    await asyncio.sleep(0.02)
    return n


@redrive.workflow(name="batch_fleet.Report")
class Report(redrive.Workflow):
    async def run(self, counts: BatchCounts | None = None) -> int:
        return 0 if counts is None else counts.completed


def worker(address: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", WORKER, address])  # noqa: S603 - our own command


@pytest.mark.promise("E7")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_follows_starts_once_in_a_fleet_that_is_being_killed(kind: str, tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/app.db" if kind == "sqlite" else shared_server().fresh_database()
    dice = random.Random(7)

    async def story() -> None:
        async with redrive.open(address, worker=False) as app:
            fleet = [worker(address) for _ in range(WORKERS)]
            try:
                calls = [work(n) for n in range(FLOWS)]
                batch = await app.batch("night", calls, on_done=Report.call())
                done = asyncio.ensure_future(batch.wait(PATIENCE))
                for _ in range(KILLS):
                    await asyncio.sleep(0.25)
                    unlucky = dice.randrange(WORKERS)
                    fleet[unlucky].kill()
                    fleet[unlucky].wait()
                    fleet[unlucky] = worker(address)
                assert await done == BatchCounts(completed=FLOWS)
                followers = await app.flows(FlowQuery(definition="workflow:batch_fleet.Report"))
                assert len(followers) == 1
                assert await app.handle(followers[0].id).result(PATIENCE) == FLOWS
            finally:
                for process in fleet:
                    process.kill()
                    process.wait()

    asyncio.run(story())
