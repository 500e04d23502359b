"""Generators that are guarded with `generators="restart"`."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import redrive
from redrive.testing import virtual_clock


class ConflictError(Exception):
    status_code = 409


def test_the_state_is_read_again_before_a_generator_restarts_after_a_conflict() -> None:
    story: list[str] = []

    @redrive.retry(generators="restart", reread=lambda: story.append("reread"))
    def rows() -> Iterator[str]:
        story.append("begin")
        if story.count("begin") < 2:
            raise ConflictError
        yield "row"

    with virtual_clock():
        assert list(rows()) == ["row"]
    assert story == ["begin", "reread", "begin"]
    story.clear()

    async def reread() -> None:
        story.append("reread")

    @redrive.retry(generators="restart", reread=reread)
    async def async_rows() -> AsyncIterator[str]:
        for row in rows.__wrapped__():  # type: ignore[attr-defined]
            yield row

    async def main() -> list[str]:
        return [row async for row in async_rows()]

    with virtual_clock():
        assert asyncio.run(main()) == ["row"]
    assert story == ["begin", "reread", "begin"]
