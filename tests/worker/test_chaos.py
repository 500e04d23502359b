"""Random workflows whose workers die, that are paused, cancelled and redriven at random: each ends as it should."""

import asyncio
from typing import Any, Literal

from hypothesis import example, given, settings
from hypothesis import strategies as st

import redrive
from redrive import RetryPolicy, Workflow, action, current_attempt, workflow
from redrive.stores.memory.store import MemoryStore
from redrive.testing import FlowApp, FlowOutcome, flow_app

BROKEN: set[str] = set()
Told = Literal["nothing", "pause", "cancel"]


@action(name="chaos.work")
async def work(name: str, fails: int) -> str:
    attempt = current_attempt()
    before = int(attempt.last_details or 0)
    if before < fails:
        attempt.heartbeat(before + 1)
        raise ConnectionError(name)
    return name


@action(name="chaos.plain_work")
def plain_work(name: str) -> str:
    return name.upper()


@action(name="chaos.mend")
async def mend(name: str) -> str:
    """Fails for good until someone mends it."""
    if BROKEN:
        raise redrive.Permanent(name)
    return name


@workflow(name="chaos.Program")
class Program(Workflow):
    async def run(self, program: list[Any]) -> Any:
        kind, *rest = program
        match kind:
            case "work":
                return await self.run_action(work(*rest[:2]), retry=RetryPolicy(20, ["ConnectionError"], rest[2]))
            case "plain":
                return await plain_work(*rest)
            case "mend":
                return await mend(*rest)
            case "sleep":
                return await asyncio.sleep(*rest)
            case "sequence":
                return [await self.run(one) for one in rest]
            case "parallel":
                return list(await asyncio.gather(*(self.run(one) for one in rest)))
            case "group":
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.run(one)) for one in rest]
                return [task.result() for task in tasks]
            case "try":
                try:
                    return await self.run(rest[0])
                except redrive.Permanent:
                    await self.run(rest[1])
                    raise
                finally:
                    await self.run(rest[2])


names = st.sampled_from("abc")
leaves = st.one_of(
    st.tuples(st.just("work"), names, st.integers(0, 2), st.sampled_from([0, 1, 3, 60])),
    st.tuples(st.just("plain"), names),
    st.tuples(st.just("mend"), names),
    st.tuples(st.just("sleep"), st.sampled_from([0, 0.5, 3, 60])),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    kinds = [several.map(lambda parts, kind=kind: (kind, *parts)) for kind in ("sequence", "parallel", "group")]  # type: ignore[misc]
    return st.one_of(*kinds, st.tuples(st.just("try"), inner, inner, inner))


programs = st.recursive(leaves, nested, max_leaves=8)
crashes = st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["before", "after"])), max_size=2)


def as_lists(program: Any) -> Any:
    return [as_lists(one) for one in program] if isinstance(program, tuple) else program


async def tell(app: FlowApp, handle: redrive.Handle[Any], told: Told, after: int) -> None:
    for _ in range(20):
        if app.witness.commits < after:
            await asyncio.sleep(0.001)
    try:
        if told == "cancel":
            await handle.cancel()
        else:
            await handle.pause()
            if (await app.outcome(handle)).status == "paused":
                await handle.resume()
    except redrive.errors.FlowFinishedError:
        return


async def live(program: Any, dies: list[Any], told: Told, after: int, broken: bool, flows: int) -> FlowOutcome:
    BROKEN.clear()
    if broken:
        BROKEN.add("all")
    store = MemoryStore()
    async with flow_app(store, same_ids=True, flows=flows) as app:
        if dies:
            app.crash_at(*dies.pop())
        handle = await app.start(Program.call(as_lists(program)))
        if told != "nothing":
            await tell(app, handle, told, after)
        for again in range(10):
            outcome = await app.outcome(handle)
            if outcome.status != "failed":
                break
            if again:
                BROKEN.clear()
            if dies:
                app.crash_at(*dies.pop())
            await app.redrive(handle.id, by="ann", why="mended")
        # Nothing is left behind.
        assert await app.retries() == []
        assert await app.store.read_heartbeats([handle.id]) == []
        assert await app.dead_letters() == []
        worker = app._worker
        assert worker is not None
        await app.until(lambda: not worker.slots.running and not worker.slots.in_use, within=5)
        return outcome


TANGLED = (
    "group",
    ("work", "a", 1, 3),
    ("try", ("mend", "b"), ("parallel", ("mend", "b"), ("mend", "c"), ("mend", "a")), ("sleep", 3)),
    ("sleep", 3),
)


@settings(max_examples=40)
@given(
    programs, crashes, st.sampled_from(["nothing", "pause", "cancel"]), st.integers(0, 5), st.booleans(), st.booleans()
)
@example(TANGLED, [], "nothing", 0, True, False)
@example(TANGLED, [(2, "after")], "nothing", 0, True, True)
@example(("sequence", ("plain", "a"), ("sleep", 60)), [], "pause", 0, False, False)
@example(("sequence", ("mend", "a"), ("sleep", 60)), [(1, "after"), (3, "after")], "nothing", 0, True, False)
def test_every_flow_ends_as_it_would_have_in_peace(
    program: Any, dies: list[Any], told: Told, after: int, broken: bool, tight: bool
) -> None:
    in_peace = asyncio.run(live(program, [], "nothing", 0, broken=False, flows=100))
    outcome = asyncio.run(live(program, list(dies), told, after, broken, flows=1 if tight else 100))
    assert in_peace.status == "completed"
    if told == "cancel":
        assert outcome.status in ("cancelled", "completed"), outcome
    else:
        assert (outcome.status, outcome.result) == ("completed", in_peace.result), outcome
