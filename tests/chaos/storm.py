"""One storm from beginning to end: start everything, break it, calm it, wait until all has settled, and check."""

import asyncio
import contextlib
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from tests.chaos import definitions, effects
from tests.chaos.checker import FlowStory, Story, check
from tests.chaos.clients import LIMIT, Clients, Told, observe_limits, operate, resume_all
from tests.chaos.failover import Failover
from tests.chaos.faults import Storm
from tests.chaos.network import Network
from tests.chaos.processes import Fleet, through
from tests.postgres_server import PostgresServer

import redrive
from redrive.client.app import App
from redrive.errors import StoreError
from redrive.flows.events import FlowCompleted
from redrive.stores.records import FINISHED, DeadQuery, FlowQuery, FlowRecord, RetryQuery
from redrive.worker.event_rows import lines_of

READ_AT_ONCE = 200
DISK_SIZE = "200m"
PAGE = 1000


@dataclass(frozen=True)
class Plan:
    """What a storm is made of; with the same seed it does the same things, though not at the same instants."""

    store: Literal["sqlite", "postgres"]
    seed: int
    flows: int
    workers: int
    seconds: float
    """How long clients start flows and faults happen."""
    lease: float = 2.0
    pause: float = 1.0
    """Seconds between two faults, on average."""
    blockers: int = 2
    """Flows that hold the event loop of their worker for longer than a lease, once."""
    handlers: bool = True
    """Whether there are HTTP steps, with a server and handlers that are killed too."""
    operators: bool = True
    without: tuple[str, ...] = ()
    """Faults to leave out."""
    failover: bool = False
    """Whether PostgreSQL fails over, half way through, to an asynchronous standby that lacks the last commits."""
    settles_within: float = 240.0

    def __str__(self) -> str:
        return (
            f"{self.store}, seed {self.seed}: {self.flows} flows, {self.workers} workers, lease {self.lease:g} s, "
            f"a fault every {self.pause:g} s for {self.seconds:g} s{', a failover' if self.failover else ''}"
        )


@dataclass
class Report:
    plan: Plan
    findings: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    lost_attempts: int = 0
    unknown_starts: int = 0
    refused_starts: int = 0
    took: float = 0.0
    settled_after: float = 0.0
    """Seconds from the end of the storm until every flow had ended."""

    def __str__(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))

        return "\n".join(
            (
                f"{self.plan}",
                f"  faults: {listed(self.faults)}",
                f"  flows: {listed(self.statuses)}; calls: {listed(self.effects)}; lost attempts {self.lost_attempts}",
                f"  starts that were refused {self.refused_starts}, with an unknown outcome {self.unknown_starts}",
                f"  took {self.took:.1f} s, settled {self.settled_after:.1f} s after the storm",
                *(f"  FINDING {one}" for one in self.findings),
                f"  {len(self.findings) or 'no'} findings",
            )
        )


def run_storm(plan: Plan, keep: Path | None = None) -> Report:
    """keep: the folder for logs and files; None for a temporary one."""
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redrive-chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        server, network, failover, disk = None, None, None, None
        if plan.store == "postgres":
            server = PostgresServer()
            stack.callback(server.remove)
            address = server.fresh_database()
            network = stack.enter_context(Network(server.port, plan.workers + 1))
            if plan.failover:
                failover = Failover(server, network, stack)
                # Clients and the server fail over too.
                address = through(address, network.port(plan.workers))
        else:
            disk = small_disk(folder / "disk", stack)
            address = f"sqlite:///{disk or folder}/chaos.db"
        return asyncio.run(_run(plan, folder, address, server, network, failover, disk))


async def _run(
    plan: Plan,
    folder: Path,
    address: str,
    server: PostgresServer | None,
    network: Network | None,
    failover: Failover | None,
    disk: Path | None,
) -> Report:
    began = time.monotonic()
    dice = random.Random(plan.seed)
    told, report = Told(), Report(plan)
    fleet = Fleet(
        address,
        folder,
        workers=plan.workers,
        lease=plan.lease,
        with_handlers=plan.handlers,
        network=network,
    )
    os.environ |= {name: fleet.env[name] for name in (definitions.HANDLERS,) if name in fleet.env}
    async with redrive.open(address, worker=False) as first, redrive.open(address, worker=False) as second:
        await first.limit_queue(definitions.NARROW, LIMIT)
        with fleet:
            await asyncio.to_thread(fleet.start)
            storm = Storm(
                fleet, random.Random(dice.random()), lease=plan.lease, pause=plan.pause,
                server=None if plan.failover else server, network=network,
                disk=disk, without=plan.without,
            )  # fmt: skip
            clients = Clients(
                (first, second), told, random.Random(dice.random()), plan.lease,
                fleet.server_url if plan.handlers else None,
            )  # fmt: skip
            around = [asyncio.create_task(observe_limits(second, told))]
            if plan.operators:
                around.append(asyncio.create_task(operate(second, told, random.Random(dice.random()))))
            if failover is not None:
                around.append(asyncio.create_task(failover.happen_after(plan.seconds / 2)))
            raging = asyncio.create_task(storm.rage())
            await asyncio.gather(
                clients.start_all(plan.flows, plan.seconds * 0.9, plan.blockers), asyncio.sleep(plan.seconds)
            )
            for task in (raging, *around):
                task.cancel()
            await asyncio.wait([raging, *around])
            await storm.calm()
            calm = time.monotonic()
            await resume_all(first, told)
            fleet.mended_file.touch()
            await _settle(first, told, plan.settles_within)
            report.settled_after = time.monotonic() - calm
            report.faults = storm.done
        story = await _story(first, told, effects.read(fleet.effects_file))
        story.lost_commits = plan.failover
    report.findings = check(story)
    report.statuses = Counter(str(flow.record.status) for flow in story.flows.values())
    report.effects = Counter(effect.word for effect in story.effects)
    report.lost_attempts = sum(
        getattr(getattr(line.event, "failure", None), "kind", "") == "lost"
        for flow in story.flows.values()
        for line in flow.lines
    )
    report.unknown_starts, report.refused_starts = told.unknown_starts, told.refused_starts
    report.took = time.monotonic() - began
    return report


async def _settle(app: App, told: Told, patience: float) -> None:
    """Wait until every flow has ended; redrive what was broken and is mended now."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        with contextlib.suppress(StoreError):
            doomed = [ids[0] for number, ids in told.started.items() if ids and told.kinds[number] == "doomed"]
            letters = [letter.flow_id for letter in await app.dead_letters(DeadQuery(kind="permanent", limit=PAGE))]
            if back := sorted(set(letters) & set(doomed)):
                await app.redrive(back, by="storm", why="it is mended")
            unfinished = await app.flows(FlowQuery(status=("ready", "waiting", "running", "paused", "parked"), limit=1))
            if not unfinished and not back:
                return
        await asyncio.sleep(0.2)


async def _story(app: App, told: Told, done: list[effects.Effect]) -> Story:
    records: dict[str, FlowRecord] = {}
    before: str | None = None
    while page := await app.flows(FlowQuery(before=before, limit=PAGE)):
        records |= {record.id: record for record in page}
        before = page[-1].id
    flows: dict[str, FlowStory] = {}
    ids = list(records)
    for start in range(0, len(ids), READ_AT_ONCE):
        logs = await app.store.read_events(ids[start : start + READ_AT_ONCE])
        for flow_id, rows in logs.items():
            lines = lines_of(rows)
            end = lines[-1].event if lines else None
            result: Any = msgspec.json.decode(end.result) if isinstance(end, FlowCompleted) else None
            flows[flow_id] = FlowStory(records[flow_id], lines, result)
    leftovers = [f"{row}" for row in await app.retries(RetryQuery(limit=10))]
    finished = [flow_id for flow_id, record in records.items() if record.status in FINISHED]
    for start in range(0, len(finished), READ_AT_ONCE):
        leftovers += [f"{row}" for row in await app.store.read_heartbeats(finished[start : start + READ_AT_ONCE])]
    return Story(
        effects=done,
        flows=flows,
        kinds=told.kinds,
        started=told.started,
        unknown_starts=told.unknown_starts,
        cancelled=told.cancelled,
        leftovers=leftovers,
        over_limit=told.over_limit[:10],
    )


def small_disk(place: Path, stack: contextlib.ExitStack) -> Path | None:
    """Mount a file system that can be filled; None where that is not permitted: it takes root."""
    place.mkdir(exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={DISK_SIZE}", "redrive-chaos", str(place)]
    try:
        if subprocess.run(["mount", *options], capture_output=True).returncode:  # noqa: S603, S607 - the system's own
            return None
    except FileNotFoundError:
        return None
    stack.callback(subprocess.run, ["umount", "--lazy", str(place)], capture_output=True)
    return place
