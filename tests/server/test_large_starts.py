"""Large inputs are started one at a time; small ones do not wait for them."""

import asyncio

import pytest

from redrive.flows.values.json_limits import LARGE_JSON
from redrive.server.requests.large_inputs import LargeInputs


@pytest.mark.promise("X8")
def test_large_inputs_take_turns_and_small_ones_go_past_them() -> None:
    async def scene() -> None:
        inputs, release = LargeInputs(), asyncio.Event()
        running = most = 0

        async def large() -> None:
            nonlocal running, most
            async with inputs.turn(LARGE_JSON):
                running += 1
                most = max(most, running)
                await release.wait()
                running -= 1

        tasks = [asyncio.create_task(large()) for _ in range(5)]
        await asyncio.sleep(0)
        assert (running, inputs.waiting) == (1, 4)
        async with asyncio.timeout(5), inputs.turn(LARGE_JSON - 1):
            pass
        # One that is no longer wanted leaves the line.
        tasks[3].cancel()
        await asyncio.sleep(0)
        assert inputs.waiting == 3
        release.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (most, running, inputs.waiting) == (1, 0, 0)

    asyncio.run(scene())
