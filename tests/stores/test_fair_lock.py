"""A connection is used by one at a time, in the order they come, whoever gives up meanwhile."""

import asyncio
import random

import pytest

from redrive.stores.postgres.fair_lock import FairLock

USERS = 12


@pytest.mark.parametrize("seed", range(50))
def test_turns_are_taken_one_at_a_time_in_order_and_none_is_lost(seed: int) -> None:
    """Whoever is cancelled, while it waits, when its turn has just come or in its turn, holds nobody up."""
    chance = random.Random(seed)
    turns, order, inside = FairLock(), list[int](), 0

    async def use(number: int, steps: int) -> None:
        nonlocal inside
        if turns.locked:
            await turns.wait()
        turns.locked = True
        try:
            inside += 1
            assert inside == 1
            order.append(number)
            for _ in range(steps):
                await asyncio.sleep(0)
        finally:
            inside -= 1
            turns.release()

    async def scenario() -> None:
        users = [asyncio.create_task(use(number, chance.randrange(3))) for number in range(USERS)]
        for _ in range(40):
            await asyncio.sleep(0)
            if chance.random() < 0.2:
                chance.choice(users).cancel()
        async with asyncio.timeout(5):
            ended = await asyncio.gather(*users, return_exceptions=True)
            await use(USERS, 1)
        assert all(one is None or isinstance(one, asyncio.CancelledError) for one in ended)

    asyncio.run(scenario())
    assert order == sorted(order)
    assert order[-1] == USERS
    assert not turns.locked
