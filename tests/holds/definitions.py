"""What the measured server runs."""

import asyncio
from typing import Any

import redrive
from redrive import Graph, Workflow, action, workflow
from redrive.flows.graphs.graph import register_graph
from redrive.flows.scripts.script import Script, register_script


@action(name="hold_take")
async def take(given: Any) -> None: ...


@action(name="hold_give")
async def give(kind: str, count: int) -> Any:
    return "x" * count if kind == "text" else list(range(count))


@action(name="hold_echo")
async def echo(n: Any) -> Any:
    return n


@action(name="hold_nap")
async def nap(n: Any) -> Any:
    await asyncio.sleep(3600)


@action(name="hold_refuse_first")
async def refuse_first(n: Any) -> Any:
    if n == 0:
        raise redrive.Permanent("no")
    await asyncio.sleep(0.5)


@workflow(name="HoldMany")
class HoldMany(Workflow):
    async def run(self, count: int) -> int:
        return len(await asyncio.gather(*(echo(n=n) for n in range(count))))


@workflow(name="HoldLong")
class HoldLong(Workflow):
    async def run(self, count: int) -> int:
        for n in range(count):
            await echo(n=n)
        return count


def each(name: str, handler: Any) -> Graph:
    return Graph(name).step(
        "each", handler, inputs={"n": {"type": "any", "for_each": True, "from": "ns"}}, outputs={"ns_out": "any"}
    )


def define() -> None:
    register_graph(each("hold_each", echo))
    register_graph(each("hold_nap_each", nap))
    register_graph(each("hold_fail_each", refuse_first))
    register_script(
        Script("hold_nap_spread", "fn main(ns):\n    r = spread ns:n -> @hold_nap(n=n)\n    return len(r)\n")
    )
    register_script(Script("hold_spread", "fn main(ns):\n    r = spread ns:n -> @hold_echo(n=n)\n    return len(r)\n"))
