"""Steps over HTTP: `python -m benchmarks.http [--json] [--quick]`.

A handler in a process of its own answers at once. What is measured is how many durable steps a second reach it, beside
a loop that does nothing but POST the same bodies with the same client at the same concurrency, and how the planner
grows with the graph.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter

import msgspec

import redrive
from benchmarks.engine_peers.loads import run
from benchmarks.figures import Budget, Case, Figure, Outcome, arguments, progress, show, step, value_of
from redrive.flows.graphs.moves import StartItem
from redrive.flows.graphs.plan import plan
from redrive.flows.graphs.progress import GraphProgress
from redrive.flows.graphs.spec import Plan

BARE, SQLITE, POSTGRES, PLANNER = "bare", "redrive-sqlite", "redrive-postgres", "planner"
STEPS_A_FLOW = 10
AT_ONCE = 100
ITEMS = 100
GRAPHS = (10, 100, 1_000)

BARE_POSTS = Case(name="bare_posts", unit="/s", what=f"POSTs in a loop, {AT_ONCE} at once")
HTTP_STEPS = Case(name="http_steps", unit="/s", what=f"durable steps, {AT_ONCE} flows of {STEPS_A_FLOW} steps at once")
POST_MS = Case(name="post_ms", unit="ms", what="one POST after the other: half are faster")
STEP_MS = Case(name="step_ms", unit="ms", what="one step after the other in one flow, its POST included")
EACH_ITEMS = Case(
    name="for_each_items", unit="/s", what=f"work items of flows with a for_each of {ITEMS}; 1,000 flows (--quick: 30)"
)
PLANS = tuple(
    Case(
        name=f"plan_{size}_us",
        unit="us",
        what=f"planning and settling a graph of {size} steps, for each step and each value it takes",
        compared=False,
    )
    for size in GRAPHS
)
STEP_CASES = (BARE_POSTS, HTTP_STEPS, POST_MS, STEP_MS, EACH_ITEMS)


class Effort(msgspec.Struct, frozen=True):
    posts: int
    flows: int
    alone: int
    each_flows: int


FULL = Effort(posts=40_000, flows=2_000, alone=500, each_flows=1_000)
QUICK = Effort(posts=8_000, flows=300, alone=100, each_flows=30)


def main() -> None:
    options = arguments("Steps over HTTP, beside a bare loop of POSTs.")
    effort = QUICK if options.quick else FULL
    figures: list[Figure] = []

    def add(system: str, case: Case, value: float) -> None:
        figures.append(Figure(system=system, case=case.name, value=round(value, 2), unit=case.unit))

    with progress(steps=4) as bar, _handler() as url, _stores() as (sqlite, postgres):
        step(bar, BARE)
        posts, post_ms = run(_bare(url, effort))
        add(BARE, BARE_POSTS, posts)
        add(BARE, POST_MS, post_ms)
        for system, store in ((SQLITE, sqlite), (POSTGRES, postgres)):
            step(bar, system)
            steps, step_ms, items = run(_redrive(store, url, effort))
            add(system, HTTP_STEPS, steps)
            add(system, STEP_MS, step_ms)
            add(system, EACH_ITEMS, items)
        step(bar, PLANNER)
        for size, case in zip(GRAPHS, PLANS, strict=True):
            add(PLANNER, case, _planning_us(size))
    if options.json:
        show(Outcome(title="", cases=(), figures=figures), as_json=True)
        return
    for title, cases in (("steps over HTTP", STEP_CASES), ("the planner", PLANS)):
        names = {case.name for case in cases}
        of_cases = [one for one in figures if one.case in names]
        budgets = _budgets(of_cases)
        show(Outcome(title=title, cases=cases, figures=of_cases, budgets=budgets), as_json=False)


def _budgets(figures: list[Figure]) -> list[Budget]:
    small, large = (value_of(figures, PLANNER, case.name) for case in (PLANS[0], PLANS[-1]))
    if not small or not large:
        return []
    what = "the planner's cost for each step and value grows at most 1.5 times from 10 to 1,000 steps"
    return [Budget(what=what, measured=f"{large / small:.2f}", met=large / small <= 1.5)]


@contextmanager
def _handler() -> Iterator[str]:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.http_handler"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


@contextmanager
def _stores() -> Iterator[tuple[str, str]]:
    from tests.postgres_server import PostgresServer

    server = PostgresServer(durable=True)
    try:
        with tempfile.TemporaryDirectory(prefix="redrive-http-") as folder:
            yield f"sqlite:///{folder}/http.db", server.fresh_database()
    finally:
        server.remove()


# The bare loop


async def _bare(url: str, effort: Effort) -> tuple[float, float]:
    import aiohttp

    body = b'{"value":1}'
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def post() -> None:
            async with session.post(f"{url}/step", data=body, headers=headers) as answer:
                await answer.read()

        async def poster(posts: int) -> None:
            for _ in range(posts):
                await post()

        await poster(100)
        began = perf_counter()
        await asyncio.gather(*(poster(effort.posts // AT_ONCE) for _ in range(AT_ONCE)))
        a_second = effort.posts / (perf_counter() - began)
        alone = []
        for _ in range(effort.alone):
            began = perf_counter()
            await post()
            alone.append(perf_counter() - began)
    return a_second, statistics.median(alone) * 1000


# redrive


def _chain(name: str, url: str, steps: int) -> redrive.Graph:
    """Each step takes what the one before it gave."""
    graph = redrive.Graph(name, goals=[f"step_{steps}"])
    for number in range(1, steps + 1):
        graph.step(
            f"step_{number}",
            f"{url}/step",
            inputs={"value": {"type": "integer", "from": f"value_{number - 1}"}},
            outputs={f"value_{number}": "any"},
        )
    return graph


def _fan(url: str) -> redrive.Graph:
    return redrive.Graph("fan").step(
        "each",
        f"{url}/step",
        inputs={"value": {"type": "integer", "from": "values", "for_each": True}},
        outputs={"seen": "any"},
    )


@asynccontextmanager
async def _opened(store: str) -> AsyncIterator[redrive.App]:
    http = redrive.HttpSettings(allow=("127.0.0.0/8",), connections=AT_ONCE)
    async with redrive.open(store, http=http) as app:
        yield app


async def _redrive(store: str, url: str, effort: Effort) -> tuple[float, float, float]:
    chain, alone, fan = _chain("chain", url, STEPS_A_FLOW), _chain("alone", url, effort.alone), _fan(url)
    for graph in (chain, alone, fan):
        redrive.register_graph(graph)
    async with _opened(store) as app:

        async def finished(graph: redrive.Graph, inputs: dict[str, object]) -> None:
            handle = await app.start(graph.call(inputs))
            await handle.result()

        async def one_after_the_other(flows: int) -> None:
            for _ in range(flows):
                await finished(chain, {"value_0": 1})

        await one_after_the_other(2)
        began = perf_counter()
        await asyncio.gather(*(one_after_the_other(effort.flows // AT_ONCE) for _ in range(AT_ONCE)))
        steps = effort.flows // AT_ONCE * AT_ONCE * STEPS_A_FLOW / (perf_counter() - began)
        began = perf_counter()
        await finished(alone, {"value_0": 1})
        step_ms = (perf_counter() - began) / effort.alone * 1000
        values = list(range(ITEMS))
        began = perf_counter()
        await asyncio.gather(*(finished(fan, {"values": values}) for _ in range(effort.each_flows)))
        items = effort.each_flows * ITEMS / (perf_counter() - began)
    return steps, step_ms, items


# The planner


def _layers(size: int) -> redrive.Graph:
    """Ten steps in each layer, each of which takes what three of the layer before gave."""
    graph = redrive.Graph("layers", goals=[f"s{number}" for number in range(size - 10, size)])
    for number in range(size):
        layer, place = divmod(number, 10)
        before = [(layer - 1) * 10 + (place + offset) % 10 for offset in (0, 1, 2)] if layer else []
        inputs = {f"v{one}": "any" for one in before} or {"start": "any"}
        graph.step(f"s{number}", "http://127.0.0.1/", inputs=inputs, outputs={f"v{number}": "any"})
    return graph


def _planning_us(size: int) -> float:
    graph = _layers(size).check()
    parts = size + sum(len(one.inputs) for one in graph.steps)
    rounds = max(1, 2_000 // size)
    best = float("inf")
    for _ in range(5):
        began = perf_counter()
        for _ in range(rounds):
            _settle(plan(graph, None, {"start"}))
        best = min(best, (perf_counter() - began) / rounds / parts)
    return best * 1e6


def _settle(made: Plan) -> None:
    walk = GraphProgress(made, {"start": 1})
    moves = walk.start()
    for move in moves:  # which grow
        if isinstance(move, StartItem):
            moves += walk.completed(move.key, dict.fromkeys(move.spec.outputs, 1))


if __name__ == "__main__":
    main()
