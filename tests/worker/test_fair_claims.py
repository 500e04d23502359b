"""Workers that are idle share the work: none takes more than it can begin soon."""

import asyncio
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest

import redrive
from redrive import action
from redrive.client.app import App
from redrive.stores.records import FlowQuery
from redrive.worker.claimer import CLAIMED_AT_FIRST

PATIENCE = 60.0
ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


@action(name="fair_claims.nap")
async def nap() -> None:
    await asyncio.sleep(0.2)


@action(name="fair_claims.block")
def block() -> None:
    time.sleep(0.02)


@action(name="fair_claims.quick")
async def quick() -> int:
    return 1


async def idle_worker(stack: AsyncExitStack, address: str, **settings: int) -> App:
    app = await stack.enter_async_context(redrive.open(address, **settings))  # type: ignore[arg-type]  # numbers only
    async with asyncio.timeout(PATIENCE):
        while app._worker is None or not app._worker.caught_up:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    return app


def count_claims(app: App, of: str) -> list[int]:
    """How many flows each claim of the app's worker takes."""
    counts: list[int] = []
    store = app.store
    claim = store.claim

    async def counted(*args: object) -> object:
        claimed = await claim(*args)  # type: ignore[arg-type]  # handed on
        counts.append(len(claimed.flows))
        ran[of] += len(claimed.flows)
        return claimed

    store.claim = counted  # type: ignore[method-assign, assignment]  # to see what is claimed
    return counts


@pytest.mark.promise("X8")
@pytest.mark.parametrize("address", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(("work", "number"), [(nap, 400), (block, 100)])
def test_two_idle_workers_share_what_there_is(address: str, work: object, number: int) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            for name in ("one", "other"):
                count_claims(await idle_worker(stack, address, threads=4), name)
            client = await stack.enter_async_context(redrive.open(address, worker=False))
            handles = await asyncio.gather(*(client.start(work()) for _ in range(number)))  # type: ignore[operator]
            await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in handles))

    asyncio.run(scenario())
    assert sum(ran.values()) == number
    # Nearly the same where the machine is idle. Where it is not, one of them may be woken much later.
    assert min(ran["one"], ran["other"]) >= number / 10, ran


@pytest.mark.promise("X8")
def test_a_worker_whose_threads_are_busy_leaves_such_flows_to_others_and_begins_all_others(address: str) -> None:
    gate = threading.Event()

    @action(name="fair_claims.held")
    def held() -> None:
        gate.wait(PATIENCE)

    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            app = await idle_worker(stack, address, threads=2)
            client = app
            if not address.startswith("memory"):
                client = await stack.enter_async_context(redrive.open(address, worker=False))
            counts = count_claims(app, "it")
            stuck = await asyncio.gather(*(client.start(held(), key=f"{n}") for n in range(300)))
            # Behind all those flows, and of another kind.
            handles = await asyncio.gather(*(client.start(quick(), key=f"{n}") for n in range(30)))
            assert [await handle.result(timeout=PATIENCE) for handle in handles] == [1] * 30
            running = await client.flows(FlowQuery(status=("running",), limit=500))
            assert 2 <= len(running) <= 2 + 3 * CLAIMED_AT_FIRST
            assert counts
            gate.set()
            await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in stuck))

    asyncio.run(scenario())


def test_a_worker_takes_more_at_once_while_there_is_more(address: str) -> None:
    async def scenario() -> list[int]:
        async with AsyncExitStack() as stack:
            app = await idle_worker(stack, address)
            counts = count_claims(app, "it")
            handles = await asyncio.gather(*(app.start(quick(), delay=0.3) for _ in range(1500)))
            await asyncio.gather(*(handle.result(timeout=PATIENCE) for handle in handles))
            return counts

    counts = asyncio.run(scenario())
    assert max(counts) > 100
