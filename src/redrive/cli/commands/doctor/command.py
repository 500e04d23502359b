"""`redrive doctor`: check the store, its workers, flows that no worker can run, and code with two retry owners."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.exit_codes import FAILED
from redrive.cli.options.shared import StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import with_app
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.leases import WorkerRecord
    from redrive.stores.queues import QueueRecord
    from redrive.stores.records import FlowRecord, FlowStatus

# Only the newest flows are checked.
MOST_FLOWS = 10_000
PAGE_SIZE = 1000
MOST_SCHEDULES = 500
MOST_LONG_LOGS = 100
LARGEST_SKEW = 2.0
LONGEST_READY = 60.0
_LEASE = 5.0


class Check(NamedTuple):
    status: Literal["ok", "warn", "fail"]
    check: str
    text: str


CodeArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CODE]...", help="Python files or folders to check for clients that retry by themselves."),
]


def doctor_command(code: CodeArgument = None, store: StoreOption = "", as_json: JsonOption = False) -> int:
    """Check the store, its workers, and whether flows are stuck: one line per check. Exit code 1 if a check fails.

    \b
    redrive doctor
    redrive doctor src/app
    redrive doctor --store postgresql://app@db/app --json
    """
    from redrive.cli.commands.doctor.second_owners import check_sources

    of_code = [Check("ok" if good else "warn", "retry owner", text) for good, text in check_sources(code or ())]
    try:
        checks = with_app(store, _run_checks)
    except BadInput as error:
        checks = [Check("fail", "store", str(error))]
    checks += of_code if code else []
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        from redrive.formatting.text import terminal_text

        for check in checks:
            typer.echo(f"{check.status:<5} {check.check:<13} {terminal_text(check.text)}")
    return FAILED if any(check.status == "fail" for check in checks) else 0


async def _run_checks(app: "App") -> list[Check]:
    from redrive.explain.store_reader import all_workers

    checks = [Check("ok", "store", f"{app.store.address} is reachable, and its schema is up to date")]
    checks += await _write_and_compare_clocks(app)
    now = SYSTEM_CLOCK.wall()
    workers = await all_workers(app.store)
    queues = await app.queues()
    open_flows = [flow async for flow in _flows(app, ("ready", "waiting", "running"))]
    parked = [flow async for flow in _flows(app, ("parked",))]
    alive = [worker for worker in workers if worker.alive]
    checks.append(_workers(alive, len(open_flows)))
    checks += _expired_leases([worker for worker in workers if not worker.alive])
    checks += _queues(queues)
    checks.append(_reachable(alive, open_flows))
    checks.append(_oldest_ready(open_flows, now))
    checks.append(_parked(parked))
    checks.append(await _dead(app))
    checks += await _long_logs(app)
    checks += await _schedules(app, bool(alive))
    return checks


async def _write_and_compare_clocks(app: "App") -> list[Check]:
    """Register a worker that claims nothing: that writes to the store, and shows the store's clock."""
    from redrive.errors import StoreError
    from redrive.explain.worker_eligibility import DOCTOR
    from redrive.formatting.times import format_duration
    from redrive.stores.leases import NewWorker

    try:
        before = SYSTEM_CLOCK.wall()
        lease = await app.store.acquire_lease(NewWorker(name=DOCTOR, definitions=()), _LEASE)
        after = SYSTEM_CLOCK.wall()
        joined = [worker.joined_at for worker in await app.store.list_workers() if worker.epoch == lease.epoch]
        await app.store.release_lease(lease)
    except StoreError as error:
        return [Check("fail", "writing", str(error))]
    checks = [Check("ok", "writing", "the store is writable")]
    skew = max(before - joined[0], joined[0] - after, 0.0) if joined else 0.0
    if skew > LARGEST_SKEW:
        text = f"this machine's clock and the store's differ by {format_duration(skew)}; synchronize them with NTP"
        return [*checks, Check("warn", "clock", text)]
    return [*checks, Check("ok", "clock", "this machine's clock and the store's agree")]


async def _schedules(app: "App", any_alive: bool) -> list[Check]:
    active = [one.name for one in await app.schedules(limit=MOST_SCHEDULES) if one.state == "active"]
    if not active:
        return []
    if any_alive:
        return [Check("ok", "schedules", f"{len(active)} active")]
    return [Check("warn", "schedules", f"no worker fires them, since none is alive: {', '.join(active[:5])}")]


async def _long_logs(app: "App") -> list[Check]:
    from redrive.stores.runs import LONG_RUN

    found = await app.store.list_long_runs(MOST_LONG_LOGS)
    if not found:
        return []
    number = f"{len(found)} or more" if len(found) == MOST_LONG_LOGS else str(len(found))
    longest = max(found, key=lambda one: one.events)
    text = (
        f"{number} with more than {LONG_RUN:,} events to replay, the longest of {longest.definition} with "
        f"{longest.events:,}: redrive explain {longest.flow_id}; workflow.continue_as_new() begins a new log"
    )
    return [Check("warn", "long logs", text)]


async def _flows(app: "App", status: "tuple[FlowStatus, ...]") -> "AsyncIterator[FlowRecord]":
    from redrive.stores.records import FlowQuery

    before: str | None = None
    for _ in range(MOST_FLOWS // PAGE_SIZE):
        page = await app.flows(FlowQuery(status=status, before=before, limit=PAGE_SIZE))
        for flow in page:
            yield flow
        if len(page) < PAGE_SIZE:
            return
        before = page[-1].id


def _workers(alive: "list[WorkerRecord]", flows: int) -> Check:
    if not alive:
        status: Literal["ok", "warn"] = "warn" if flows else "ok"
        return Check(status, "workers", "none is alive; start one: redrive worker MODULE")
    shown = [
        f"{worker.name} ({worker.flows} flows, queues {', '.join(worker.queues or ('all',))})" for worker in alive[:5]
    ]
    more = f" and {len(alive) - 5} more" if len(alive) > 5 else ""
    return Check("ok", "workers", f"{len(alive)} alive: {', '.join(shown)}{more}")


def _expired_leases(workers: "list[WorkerRecord]") -> list[Check]:
    text = "the lease of {0.name} has expired; its {0.flows} flows are released once another worker is alive"
    return [Check("warn", "lease", text.format(worker)) for worker in workers[:5]]


def _queues(queues: "list[QueueRecord]") -> list[Check]:
    import shlex

    checks = []
    for queue in queues:
        if queue.pause is not None:
            held = queue.ready + queue.waiting
            why = f" ({queue.pause.why})" if queue.pause.why else ""
            text = (
                f"{queue.name}: paused by {queue.pause.by}{why}, {queue.ready} ready, {queue.waiting} waiting; "
                f"to go on: redrive queues resume {shlex.quote(queue.name)} --why WHY"
            )
            checks.append(Check("warn" if held else "ok", "queue paused", text))
        if queue.limit is None:
            continue
        full = queue.running >= queue.limit and queue.ready > 0
        text = (
            f"{queue.name}: {queue.running} of at most {queue.limit} run, {queue.ready} ready, {queue.waiting} waiting"
        )
        checks.append(Check("warn" if full else "ok", "queue limit", text))
    return checks


def _reachable(alive: "list[WorkerRecord]", flows: "list[FlowRecord]") -> Check:
    from redrive.explain.worker_eligibility import WorkerEligibility
    from redrive.flows.stored_inputs import required_actions

    kinds = [(flow.definition, flow.queue, required_actions(flow.definition, flow.input)) for flow in flows]
    examples = dict(zip(kinds, flows, strict=True))
    stuck: Counter[str] = Counter()
    for kind, number in Counter(kinds).items():
        eligibility = WorkerEligibility(examples[kind], alive)
        if not eligibility.any_eligible():
            lacks = f" (it waits for {eligibility.missing_worker()})" if eligibility.missing_actions else ""
            stuck[f"{kind[0]} in queue {kind[1]}{lacks}"] += number
    if not stuck:
        return Check("ok", "reachable", "live workers can run every unfinished flow")
    shown = ", ".join(f"{number} of {what}" for what, number in list(stuck.items())[:5])
    return Check("fail", "reachable", f"no live worker can run {shown}; start one: redrive worker MODULE")


def _oldest_ready(flows: "list[FlowRecord]", now: float) -> Check:
    from redrive.formatting.times import format_duration

    ready = {flow.id: now - max(flow.start_at, flow.wake_at or 0.0) for flow in flows if flow.status == "ready"}
    if not ready:
        return Check("ok", "ready", "no flow waits for a worker")
    oldest = max(ready, key=lambda flow: ready[flow])
    scope = f" (of the newest {MOST_FLOWS})" if len(flows) >= MOST_FLOWS else ""
    longest = format_duration(max(0.0, ready[oldest]))
    text = f"{len(ready)} wait for a worker{scope}, the oldest for {longest}: redrive explain {oldest}"
    return Check("warn" if ready[oldest] > LONGEST_READY else "ok", "ready", text)


def _parked(parked: "list[FlowRecord]") -> Check:
    if not parked:
        return Check("ok", "parked", "no flow is parked")
    then = "then: redrive flows resume --parked --why 'the code is fixed'"
    text = f"{len(parked)} parked until their code is fixed: redrive explain {parked[-1].id}; {then}"
    return Check("warn", "parked", text)


async def _dead(app: "App") -> Check:
    from redrive.stores.records import DeadQuery

    letters = await app.dead_letters(DeadQuery(limit=PAGE_SIZE))
    if not letters:
        return Check("ok", "dead letters", "none")
    number = f"{len(letters)} or more" if len(letters) == PAGE_SIZE else str(len(letters))
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(letter.kind for letter in letters).most_common(5))
    return Check("warn", "dead letters", f"{number} ({kinds}); list them: redrive dead")
