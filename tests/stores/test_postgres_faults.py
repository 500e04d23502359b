"""The server dies, connections break, workers are too late: nothing is lost, and work goes on when it can."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no annotations
import pytest
from tests.postgres_server import PostgresServer, shared_server
from tests.stores.postgres_scene import NOW, PATIENCE, WORK, Scene, claimed, joined, new_flow, played, until

from redrive.errors import CommitUnknownError, LeaseLostError, StoreError, StoreUnavailableError
from redrive.stores.leases import Lease
from redrive.stores.postgres import connections
from redrive.stores.postgres import server as server_module
from redrive.stores.postgres.store import PostgresStore
from redrive.stores.records import Batch, EventRow, FlowChange


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """To be stopped; it runs again afterwards."""
    server = shared_server()
    yield server
    if not server.running:
        server.start()


def batch(number: int, flow_id: str = "a", more: bool = False) -> Batch:
    """A line of the flow's log; with `more`, also a message that was read."""
    events = [EventRow(flow_id, number, NOW, str(number))]
    return Batch(number=number, events=events, messages_read={99: flow_id} if more else {})


async def log(store: PostgresStore, flow_id: str = "a") -> list[str]:
    return [event.body for event in (await store.read_events([flow_id]))[flow_id]]


async def waiting_for_locks(connection: Any) -> list[int]:
    return [pid for (pid,) in await connection.fetch("SELECT DISTINCT pid FROM pg_locks WHERE NOT granted")]


async def hold_worker(connection: Any, lease: Lease) -> Any:
    """Lock the worker's row, so that its commits wait; what is returned lets go."""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT FROM workers WHERE epoch = $1 FOR UPDATE", lease.epoch)
    return transaction


# What only events are in is written in another way than the rest.
BATCHES = pytest.mark.parametrize("more", [False, True], ids=["events", "more"])


# The way to the server


def test_a_connection_that_is_cut_while_its_session_is_set_up_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server was reached, so the address is right: a worker must connect again, not end."""
    address, connect = shared_server().fresh_database(), asyncpg.connect

    async def cut(*args: Any, **settings: Any) -> Any:
        connection = await connect(*args, **settings)
        connection.terminate()
        return connection

    async def scenario() -> None:
        store = PostgresStore(address)
        monkeypatch.setattr(asyncpg, "connect", cut)
        with pytest.raises(StoreUnavailableError, match="cannot connect"):
            await store.open()
        monkeypatch.undo()
        await store.open()
        await store.close()

    asyncio.run(scenario())


@BATCHES
def test_a_backend_that_is_terminated_in_mid_commit_leaves_nothing_and_work_goes_on(more: bool) -> None:
    async def play(scene: Scene) -> None:
        store, admin = await scene.store(), await scene.connection()
        lease = await joined(store)
        await store.commit(lease, batch(1, more=more))
        held = await hold_worker(admin, lease)
        commit = asyncio.create_task(store.commit(lease, batch(2, more=more)))
        (pid,) = await until(lambda: waiting_for_locks(admin))
        await admin.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(CommitUnknownError, match="connection was lost"):
            await commit
        await held.rollback()
        assert not await store.committed(lease, batch(2, more=more))
        assert await log(store) == ["1"]
        await store.commit(lease, batch(2, more=more))
        assert await log(store) == ["1", "2"]

    played(play)


@BATCHES
def test_a_commit_that_is_still_under_way_is_waited_for_before_its_outcome_is_told(more: bool) -> None:
    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store, admin = await scene.store(proxy), await scene.connection()
        lease = await joined(store)
        held = await hold_worker(admin, lease)
        commit = asyncio.create_task(store.commit(lease, batch(1, more=more)))
        await until(lambda: waiting_for_locks(admin))
        proxy.cut_off_clients()
        with pytest.raises(CommitUnknownError):
            await commit
        asked = asyncio.create_task(store.committed(lease, batch(1, more=more)))

        async def both_wait() -> bool:
            return len(await waiting_for_locks(admin)) == 2

        await until(both_wait)
        await held.rollback()
        assert await asked
        assert await log(store) == ["1"]
        await store.commit(lease, batch(2, more=more))

    played(play)


@BATCHES
def test_a_commit_that_arrives_after_its_outcome_was_told_writes_nothing(more: bool) -> None:
    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store = await scene.store(proxy)
        direct = await scene.store()
        lease = await joined(store)
        await store.commit(lease, batch(1, more=more))
        proxy.keep()
        commit = asyncio.create_task(store.commit(lease, batch(2, more=more)))
        async with asyncio.timeout(PATIENCE):
            await proxy.kept.wait()
        proxy.cut_off_clients()
        with pytest.raises(CommitUnknownError):
            await commit
        # What was kept back stays where it is, while new connections get through.
        assert not await store.committed(lease, batch(2, more=more))
        proxy.deliver()
        async with asyncio.timeout(PATIENCE):
            await proxy.late_answers.wait()
        assert await log(direct) == ["1"]
        await store.commit(lease, batch(2, more=more))
        assert await log(direct) == ["1", "2"]

    played(play)


def test_a_server_that_does_not_answer_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "COMMAND_TIMEOUT", 0.3)

    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store = await scene.store(proxy)
        lease = await joined(store)
        await store.commit(lease, batch(1))
        proxy.keep()
        with pytest.raises(CommitUnknownError, match="no answer in time"):
            await store.commit(lease, batch(2))
        with pytest.raises(StoreUnavailableError, match="no answer in time"):
            await store.find_flow("a")
        assert not await store.committed(lease, batch(2))
        await store.commit(lease, batch(2))
        assert await log(store) == ["1", "2"]

    played(play)


@contextmanager
def closed_between() -> Iterator[None]:
    """Meanwhile each connection is closed after a statement was prepared, and before it is executed."""
    prepare = asyncpg.Connection._get_statement

    async def and_close(connection: Any, *args: Any, **settings: Any) -> Any:
        statement = await prepare(connection, *args, **settings)
        connection.terminate()
        return statement

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncpg.Connection, "_get_statement", and_close)
        yield


def test_a_connection_that_is_closed_between_two_steps_of_a_statement_counts_as_lost() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        # Both connections are open by then.
        assert await store.extend_lease(lease, 10)
        assert await store.find_flow("a") is None
        with closed_between():
            with pytest.raises(CommitUnknownError, match="connection was lost"):
                await store.commit(lease, batch(1))
            with pytest.raises(StoreUnavailableError, match="connection was lost"):
                await store.find_flow("a")
        assert not await store.committed(lease, batch(1))
        await store.commit(lease, batch(1))

    played(play)


def test_who_listens_begins_again_after_that_too() -> None:
    async def play(scene: Scene) -> None:
        store, woken = await scene.store(), asyncio.Event()
        with closed_between():
            store.on_wake(woken.set)
            listening = store._notifications._task
            assert listening is not None
            await asyncio.wait([listening], timeout=0.2)
            assert not woken.is_set()
        async with asyncio.timeout(PATIENCE):
            await woken.wait()

    played(play)


def test_a_store_can_be_closed_though_its_server_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSING_COMMAND_TIMEOUT", 0.05)

    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store = await scene.store(proxy)
        await joined(store)
        proxy.keep()
        ask = asyncio.create_task(store.find_flow("a"))
        async with asyncio.timeout(PATIENCE):
            await proxy.kept.wait()
            await store.close()
        with pytest.raises(StoreUnavailableError, match="no answer in time"):
            await ask

    played(play)


def test_who_connects_while_the_store_is_closed_asks_nothing_more() -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        ask = asyncio.create_task(store.find_flow("a"))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreError, match="the store is closed"):
            await ask

    played(play)


def test_who_is_cancelled_at_any_moment_of_connecting_leaves_no_error_to_nobody() -> None:
    async def play(scene: Scene) -> None:
        told: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        store = await scene.store()
        for turns in range(12):
            ask = asyncio.create_task(store.find_flow("a"))
            for _ in range(turns):
                await asyncio.sleep(0)
            ask.cancel()
            await asyncio.wait([ask])
        gc.collect()
        await asyncio.sleep(0)
        assert not told

    played(play)


def test_a_server_that_does_not_answer_is_taken_leave_of_once_and_not_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "CLOSE_TIMEOUT", 0.6)

    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store, woken = await scene.store(proxy), asyncio.Event()
        store.on_wake(woken.set)
        lease = await joined(store)
        await store.commit(lease, batch(1))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(store.find_flow("a") for _ in range(4)), woken.wait())
        proxy.keep()
        async with asyncio.timeout(1.7):
            await store.close()

    played(play)


def test_a_connection_that_died_without_a_word_is_replaced_while_the_lease_lasts() -> None:
    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store = await scene.store(proxy)
        lease = await joined(store, ttl=1.8)
        await store.commit(lease, batch(1))
        proxy.keep()
        with pytest.raises(CommitUnknownError, match="no answer in time"):
            await store.commit(lease, batch(2))
        assert await store.extend_lease(lease, 60.0)

    played(play)


def test_who_gives_up_waiting_for_a_connection_leaves_no_dead_one_to_the_next() -> None:
    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store, direct = await scene.store(proxy), await scene.store()
        lease = await joined(store)
        await store.commit(lease, batch(1))
        proxy.keep()
        commit = asyncio.create_task(store.commit(lease, batch(2)))
        async with asyncio.timeout(PATIENCE):
            await proxy.kept.wait()
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        async with asyncio.timeout(PATIENCE):
            assert not await store.committed(lease, batch(2))
            await store.commit(lease, batch(2))
        assert await log(direct) == ["1", "2"]

    played(play)


def test_a_cancelled_commit_leaves_the_store_in_order() -> None:
    async def play(scene: Scene) -> None:
        store, admin = await scene.store(), await scene.connection()
        lease = await joined(store)
        held = await hold_worker(admin, lease)
        commit = asyncio.create_task(store.commit(lease, batch(1)))
        await until(lambda: waiting_for_locks(admin))
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit
        await held.rollback()
        known = await store.committed(lease, batch(1))
        assert await log(store) == ["1"] * known
        await store.commit(lease, batch(2 if known else 1))

    played(play)


def test_a_restart_of_the_server_is_survived_and_wake_ups_go_on(server: PostgresServer) -> None:
    async def play(scene: Scene) -> None:
        store, other = await scene.store(), await scene.store()
        woken = asyncio.Event()
        store.on_wake(woken.set)
        lease = await joined(store)
        await store.add_flows([new_flow("a")])
        await store.claim(lease, [WORK], None, 10, NOW)
        await store.commit(lease, batch(1))
        server.stop()
        for verb in (
            lambda: store.commit(lease, batch(2)),
            lambda: store.commit(lease, batch(2)),
            lambda: store.claim(lease, [WORK], None, 10, NOW),
            lambda: store.add_flows([new_flow("b")]),
            lambda: store.extend_lease(lease, 60.0),
            store.reap_leases,
            lambda: store.list_queues(NOW),
        ):
            with pytest.raises(StoreUnavailableError, match=f"{server.host}:{server.port}"):
                await verb()
        server.start()
        assert not await store.committed(lease, batch(2))
        await store.commit(lease, batch(2))
        assert await log(store) == ["1", "2"]
        await other.add_flows([new_flow("b")])
        async with asyncio.timeout(PATIENCE):
            # Once when it listens again, and then for each flow.
            await woken.wait()
            while not await claimed(store, lease):
                woken.clear()
                await woken.wait()
        woken.clear()
        await other.add_flows([new_flow("c")])
        async with asyncio.timeout(PATIENCE):
            await woken.wait()

    played(play)


def test_what_was_committed_survives_the_death_of_the_server(server: PostgresServer) -> None:
    async def play(scene: Scene) -> None:
        store = await scene.store()
        lease = await joined(store)
        known = 0

        async def write() -> None:
            nonlocal known
            while True:
                await store.commit(lease, batch(known + 1))
                known += 1

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.2)
        server.kill()
        with pytest.raises(StoreUnavailableError):
            await writing
        server.start()
        assert known > 0
        known += await store.committed(lease, batch(known + 1))
        assert await log(store) == [str(number) for number in range(1, known + 1)]

    played(play)


@pytest.mark.parametrize("limited", [False, True])
def test_a_claim_whose_answer_was_lost_is_answered_the_next_time(
    limited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its flows would be owned by a worker that does not know of them, for as long as it lives."""
    monkeypatch.setattr(server_module, "IDLE_IN_TRANSACTION_TIMEOUT", "300ms")

    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store, direct, admin = await scene.store(proxy), await scene.store(), await scene.connection()
        if limited:
            await direct.configure_queue("default", {"limit": 100})
        lease = await joined(store)
        assert await claimed(store, lease) == []
        await direct.add_flows([new_flow(f"f{number}") for number in range(5)])
        holding = admin.transaction()
        await holding.start()
        await admin.execute("SELECT FROM workers FOR UPDATE")
        claim = asyncio.create_task(claimed(store, lease, 3))
        await until(lambda: waiting_for_locks(admin))
        proxy.cut_off_clients()
        with pytest.raises(StoreUnavailableError):
            await claim
        again = asyncio.create_task(claimed(store, lease, 10))
        await holding.rollback()
        flows = await again
        flows += await claimed(store, lease, 10)
        assert sorted((flow.id, flow.claims) for flow in flows) == [(f"f{number}", 1) for number in range(5)]

    played(play)


@pytest.mark.promise("R7")
def test_a_claim_that_is_cancelled_leaves_no_transaction_to_whoever_comes_next() -> None:
    """It would never end, as the connection is in use all the time, and hold up every worker that reaps."""

    async def play(scene: Scene) -> None:
        store, admin = await scene.store(), await scene.connection()
        await store.configure_queue("default", {"limit": 100})
        lease = await joined(store)
        await store.add_flows([new_flow(f"f{number}") for number in range(40)])
        await claimed(store, lease, 1)
        for number in range(30):
            # At every moment that such a claim has.
            claim = asyncio.create_task(claimed(store, lease, 1))
            for _ in range(number % 10):
                await asyncio.sleep(0)
            await asyncio.sleep(number / 30_000)
            claim.cancel()
            await asyncio.wait([claim])
            await claimed(store, lease, 1)
        assert not await admin.fetch("SELECT FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
        await store.release_lease(lease)
        assert await admin.fetchval("SELECT count(*) FROM workers") == 0

    played(play)


def test_a_claim_that_arrives_late_takes_nothing() -> None:
    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        store, direct = await scene.store(proxy), await scene.store()
        lease = await joined(store)
        assert await claimed(store, lease) == []
        await direct.add_flows([new_flow(f"f{number}") for number in range(5)])
        proxy.keep()
        claim = asyncio.create_task(claimed(store, lease, 3))
        async with asyncio.timeout(PATIENCE):
            await proxy.kept.wait()
        proxy.cut_off_clients()
        with pytest.raises(StoreUnavailableError):
            await claim
        assert len(await claimed(store, lease, 1)) == 1
        proxy.deliver()
        async with asyncio.timeout(PATIENCE):
            await proxy.late_answers.wait()
        assert len(await claimed(store, lease)) == 4

    played(play)


# Whose turn it is


@BATCHES
def test_a_lease_is_not_taken_away_while_a_commit_under_it_is_under_way(more: bool) -> None:
    """Otherwise the next owner would read a log to which a line is added afterwards."""

    async def play(scene: Scene) -> None:
        store, other, admin = await scene.store(), await scene.store(), await scene.connection()
        lease = await joined(store, ttl=0.5)
        await store.add_flows([new_flow("a")])
        assert len(await claimed(store, lease)) == 1
        # The same line, which is taken back in the end: until then the commit waits for it, with the lease in its hand.
        same_line = admin.transaction()
        await same_line.start()
        await admin.execute("INSERT INTO events (flow_id, seq, at, body) VALUES ('a', 1, now(), '1')")
        commit = asyncio.create_task(store.commit(lease, batch(1, more=more)))
        await until(lambda: waiting_for_locks(admin))
        expired = "SELECT expires_at < clock_timestamp() FROM workers WHERE epoch = $1"
        await until(lambda: admin.fetchval(expired, lease.epoch))
        reaping = asyncio.create_task(other.reap_leases())

        async def both_wait() -> bool:
            return len(await waiting_for_locks(admin)) == 2

        await until(both_wait)
        await same_line.rollback()
        await commit
        assert [(reaped.epoch, reaped.flows) for reaped in await reaping] == [(lease.epoch, 1)]
        assert await log(other) == ["1"]

    played(play)


@BATCHES
def test_a_commit_that_comes_while_its_lease_is_taken_away_writes_nothing(more: bool) -> None:
    async def play(scene: Scene) -> None:
        store, admin = await scene.store(), await scene.connection()
        lease = await joined(store)
        taking = admin.transaction()
        await taking.start()
        await admin.execute("DELETE FROM workers WHERE epoch = $1", lease.epoch)
        commit = asyncio.create_task(store.commit(lease, batch(1, more=more)))
        await until(lambda: waiting_for_locks(admin))
        await taking.commit()
        with pytest.raises(LeaseLostError):
            await commit
        assert await log(store) == []

    played(play)


@pytest.mark.parametrize("loop", range(5))
def test_a_lease_that_is_taken_away_in_mid_commit_lets_all_or_nothing_through(loop: int) -> None:
    async def play(scene: Scene) -> None:
        store, other, admin = await scene.store(), await scene.store(), await scene.connection()
        for number in range(10):
            flow_id = f"f{number}"
            lease = await joined(store)
            await store.add_flows([new_flow(flow_id)])
            assert len(await claimed(store, lease)) == 1

            async def reap(epoch: int = lease.epoch, turns: int = loop + number) -> int:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await admin.execute("UPDATE workers SET expires_at = now() WHERE epoch = $1", epoch)
                (reaped,) = await other.reap_leases()
                return reaped.flows

            done = Batch(
                number=1,
                events=[EventRow(flow_id, 1, NOW, "1")],
                flows=[FlowChange(flow_id=flow_id, status="completed", finished_at=NOW)],
            )
            committed, handed_on = await asyncio.gather(store.commit(lease, done), reap(), return_exceptions=True)
            flow = await other.find_flow(flow_id)
            assert flow is not None
            if committed is None:
                assert (flow.status, handed_on, await log(other, flow_id)) == ("completed", 0, ["1"])
            else:
                assert isinstance(committed, LeaseLostError)
                assert (flow.status, handed_on, await log(other, flow_id)) == ("ready", 1, [])
                await admin.execute("UPDATE flows SET status = 'completed', wake_at = NULL WHERE id = $1", flow_id)

    played(play)


@pytest.mark.parametrize("loop", range(5))
def test_no_flow_stays_with_a_worker_that_was_reaped_while_it_claimed(loop: int) -> None:
    async def play(scene: Scene) -> None:
        store, other, admin = await scene.store(), await scene.store(), await scene.connection()
        await store.add_flows([new_flow(f"f{number}") for number in range(50)])
        await store.configure_queue("default", {"limit": 1000 if loop % 2 else None})
        for number in range(10):
            lease = await joined(store)

            async def reap(epoch: int = lease.epoch, turns: int = loop + number) -> None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                await admin.execute("UPDATE workers SET expires_at = now() WHERE epoch = $1", epoch)
                await other.reap_leases()

            claim, _ = await asyncio.gather(claimed(store, lease, 20), reap(), return_exceptions=True)
            assert not isinstance(claim, BaseException) or isinstance(claim, LeaseLostError)
            owned = await admin.fetchval("SELECT count(*) FROM flows WHERE owner IS NOT NULL")
            assert owned == 0

    played(play)


def test_a_worker_that_froze_while_it_claimed_does_not_hold_the_others_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit on the queue a claim takes several statements, and it may be stopped between two of them."""
    monkeypatch.setattr(server_module, "IDLE_IN_TRANSACTION_TIMEOUT", "300ms")

    async def play(scene: Scene) -> None:
        proxy = await scene.proxy()
        frozen, other = await scene.store(proxy), await scene.store()
        await other.configure_queue("small", {"limit": 2})
        await other.add_flows([new_flow(f"s{number}", queue="small") for number in range(5)])
        lease, others = await joined(frozen), await joined(other)
        assert len((await frozen.claim(lease, [WORK], None, 1, NOW)).flows) == 1
        admin = await scene.connection()
        limits = admin.transaction()
        await limits.start()
        await admin.execute("SELECT FROM queue_limits FOR UPDATE")
        claim = asyncio.create_task(frozen.claim(lease, [WORK], None, 1, NOW))
        await until(lambda: waiting_for_locks(admin))
        proxy.keep()
        await limits.rollback()
        async with asyncio.timeout(PATIENCE):
            await proxy.kept.wait()
            claimed = await other.claim(others, [WORK], None, 10, NOW)
        assert len(claimed.flows) == 1
        proxy.cut_off_clients()
        with pytest.raises(StoreUnavailableError):
            await claim

    played(play)
