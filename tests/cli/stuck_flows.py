"""Workflows that hold up their worker, for the tests of the command line, which name this file."""

import asyncio
from pathlib import Path

from redrive import Workflow, workflow


@workflow(name="CliStuck")
class CliStuck(Workflow):
    async def run(self, begun: Path) -> None:
        begun.touch()  # noqa: ASYNC240 - says when it holds up its worker
        while True:
            pass


@workflow(name="CliSpins")
class CliSpins(Workflow):
    async def run(self) -> None:
        while True:  # noqa: ASYNC110 - what no workflow should do
            await asyncio.sleep(0)
