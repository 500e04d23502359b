"""`redrive doctor`: is the store well, are workers alive, and does anything lie where nobody takes it up?"""

from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.exit_codes import FAILED
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_use import StoreOption, ask
from redrive.determinism.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.stores.records import FlowRecord, FlowStatus, QueueRecord, WorkerRecord

# So many flows are looked at, newest first.
MOST_FLOWS = 10_000
A_PAGE = 1000
LARGEST_SKEW = 2.0
LONGEST_READY = 60.0
_VISIT = 5.0


class Check(NamedTuple):
    status: Literal["ok", "warn", "fail"]
    check: str
    text: str


def doctor_command(store: StoreOption = "", as_json: JsonOption = False) -> int:
    """Check the store, its workers, and what lies around: one line each. Exit code 1 when something fails.

    \b
    redrive doctor
    redrive doctor --store postgresql://app@db/app --json
    """
    try:
        checks = ask(store, _examine)
    except BadInput as error:
        checks = [Check("fail", "store", str(error))]
    if as_json:
        print_json([check._asdict() for check in checks])
    else:
        for check in checks:
            typer.echo(f"{check.status:<5} {check.check:<13} {check.text}")
    return FAILED if any(check.status == "fail" for check in checks) else 0


async def _examine(app: "App") -> list[Check]:
    from redrive.explain.worker_eligibility import workers_in

    checks = [Check("ok", "store", f"{app.store.address} can be reached, and its schema is up to date")]
    checks += await _visit(app)
    now = SYSTEM_CLOCK.wall()
    workers = await workers_in(app.store)
    queues = await app.queues()
    open_flows = [flow async for flow in _flows(app, ("ready", "waiting", "running"))]
    parked = [flow async for flow in _flows(app, ("parked",))]
    alive = [worker for worker in workers if worker.alive]
    checks.append(_workers(alive, len(open_flows)))
    checks += _gone([worker for worker in workers if not worker.alive])
    checks += _queues(queues)
    checks.append(_unknown_to_all(alive, open_flows))
    checks.append(_oldest_ready(open_flows, now))
    checks.append(_parked(parked))
    checks.append(await _dead(app))
    return checks


async def _visit(app: "App") -> list[Check]:
    """Write for real, as a worker that takes nothing; the store's clock shows in when it joined."""
    from redrive.errors import StoreError
    from redrive.explain.words import span
    from redrive.explain.worker_eligibility import VISITOR
    from redrive.stores.records import NewWorker

    try:
        before = SYSTEM_CLOCK.wall()
        lease = await app.store.join(NewWorker(name=VISITOR, definitions=()), _VISIT)
        after = SYSTEM_CLOCK.wall()
        joined = [worker.joined_at for worker in await app.store.list_workers() if worker.epoch == lease.epoch]
        await app.store.leave(lease)
    except StoreError as error:
        return [Check("fail", "writing", str(error))]
    checks = [Check("ok", "writing", "the store takes what is written")]
    skew = max(before - joined[0], joined[0] - after, 0.0) if joined else 0.0
    if skew > LARGEST_SKEW:
        return [
            *checks,
            Check("warn", "clock", f"this machine's and the store's differ by {span(skew)}; set them by NTP"),
        ]
    return [*checks, Check("ok", "clock", "this machine's and the store's agree")]


async def _flows(app: "App", status: "tuple[FlowStatus, ...]") -> "AsyncIterator[FlowRecord]":
    from redrive.stores.records import FlowQuery

    before: str | None = None
    for _ in range(MOST_FLOWS // A_PAGE):
        page = await app.flows(FlowQuery(status=status, before=before, limit=A_PAGE))
        for flow in page:
            yield flow
        if len(page) < A_PAGE:
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


def _gone(workers: "list[WorkerRecord]") -> list[Check]:
    text = "lease of {0.name} has run out; its {0.flows} flows are handed on once another worker is alive"
    return [Check("warn", "lease", text.format(worker)) for worker in workers[:5]]


def _queues(queues: "list[QueueRecord]") -> list[Check]:
    checks = []
    for queue in queues:
        if queue.limit is None:
            continue
        full = queue.running >= queue.limit and queue.ready > 0
        text = (
            f"{queue.name}: {queue.running} of at most {queue.limit} run, {queue.ready} ready, {queue.waiting} waiting"
        )
        checks.append(Check("warn" if full else "ok", "queue limit", text))
    return checks


def _unknown_to_all(alive: "list[WorkerRecord]", flows: "list[FlowRecord]") -> Check:
    from redrive.explain.worker_eligibility import WhoCan
    from redrive.flows.needed_actions import needed_actions

    alike = [(flow.definition, flow.queue, needed_actions(flow.definition, flow.input)) for flow in flows]
    one_of = dict(zip(alike, flows, strict=True))
    nobody: Counter[str] = Counter()
    for kind, number in Counter(alike).items():
        who = WhoCan(one_of[kind], alive)
        if not who:
            lacks = f" (it waits for {who.missing_in_words})" if who.missing else ""
            nobody[f"{kind[0]} in queue {kind[1]}{lacks}"] += number
    if not nobody:
        return Check("ok", "reachable", "no flow lies where no live worker can run it")
    shown = ", ".join(f"{number} of {what}" for what, number in list(nobody.items())[:5])
    return Check("fail", "reachable", f"no live worker can run {shown}; start one: redrive worker MODULE")


def _oldest_ready(flows: "list[FlowRecord]", now: float) -> Check:
    from redrive.explain.words import span

    ready = {flow.id: now - max(flow.start_at, flow.wake_at or 0.0) for flow in flows if flow.status == "ready"}
    if not ready:
        return Check("ok", "ready", "no flow waits for a worker")
    oldest = max(ready, key=lambda flow: ready[flow])
    looked = f" (of the newest {MOST_FLOWS})" if len(flows) >= MOST_FLOWS else ""
    longest = span(max(0.0, ready[oldest]))
    text = f"{len(ready)} wait for a worker{looked}, the oldest for {longest}: redrive explain {oldest}"
    return Check("warn" if ready[oldest] > LONGEST_READY else "ok", "ready", text)


def _parked(parked: "list[FlowRecord]") -> Check:
    if not parked:
        return Check("ok", "parked", "no flow is parked")
    then = "then: redrive flows resume --parked --why 'the code is mended'"
    text = f"{len(parked)} parked until their code is mended: redrive explain {parked[-1].id}; {then}"
    return Check("warn", "parked", text)


async def _dead(app: "App") -> Check:
    from redrive.stores.records import DeadQuery

    letters = await app.dead_letters(DeadQuery(limit=A_PAGE))
    if not letters:
        return Check("ok", "dead letters", "none")
    number = f"{len(letters)} or more" if len(letters) == A_PAGE else str(len(letters))
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(letter.kind for letter in letters).most_common(5))
    return Check("warn", "dead letters", f"{number} ({kinds}); list them: redrive dead")
