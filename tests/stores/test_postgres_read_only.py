"""A database that can only be read for a while: a standby before it is promoted, or one that its host has closed."""

import asyncio
import contextlib

import pytest
from tests.postgres_server import PostgresServer, shared_server
from tests.stores.postgres_scene import NOW, PATIENCE, WORK, Scene, claimed, joined, new_flow, played

from redrive.determinism.dice import use_dice
from redrive.errors import CommitUnknownError, StoreUnavailableError


def test_a_database_that_could_only_be_read_for_a_while_is_written_to_again() -> None:
    """A session that began meanwhile would stay read-only."""

    async def play(scene: Scene) -> None:
        store, admin = await scene.store(), await scene.connection()
        lease = await joined(store)
        name = await admin.fetchval("SELECT current_database()")
        await admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        for writes in (
            lambda: store.add_flows([new_flow("a")]),
            lambda: store.extend_lease(lease, 60.0),
            lambda: store.claim(lease, [WORK], None, 1, NOW),
        ):
            for _ in range(2):
                with contextlib.suppress(StoreUnavailableError):
                    await writes()
            with pytest.raises(StoreUnavailableError, match="read-only") as raised:
                await writes()
            assert not isinstance(raised.value, CommitUnknownError)
        await admin.execute("SET default_transaction_read_only = off")
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await store.add_flows([new_flow("a")])
        assert await store.extend_lease(lease, 60.0)
        assert len(await claimed(store, lease)) == 1

    played(play, shared_server().fresh_database())


def test_one_who_listens_pauses_between_attempts_where_a_standby_refuses() -> None:
    """The standby lets connections in, and refuses LISTEN."""
    server = PostgresServer()
    pauses, enough = 0, 4

    async def play(scene: Scene) -> None:
        await scene.store()
        await asyncio.to_thread(server.become_standby)
        paused = asyncio.Event()

        def draw() -> float:
            nonlocal pauses
            pauses += 1
            if pauses == enough:
                paused.set()
            return 0.0

        standby = await scene.store()
        with use_dice(draw):
            standby.on_wake(lambda: None)
        async with asyncio.timeout(PATIENCE):
            await paused.wait()

    try:
        played(play, server.fresh_database())
    finally:
        server.remove()
