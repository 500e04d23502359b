"""How soon flows are done once their dependency is back: `python -m benchmarks.recovery [--json] [--quick] [CASE ...]`.

Flows of one step start while a server in a process of its own is down. When it is back it can do so many requests a
second, and refuses the rest with 503. One worker, an SQLite file.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import aiohttp
import msgspec

import redrive
from benchmarks.engine_peers.loads import run
from benchmarks.figures import Budget, Case, Figure, Outcome, progress, show, step
from benchmarks.recovering_server import Count, Outage
from redrive.flows.events import ItemDeferred

LOOK_AGAIN = 0.25
MOST_SECONDS = 400.0


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    flows: int
    outage: Outage


SCENARIOS = {
    "herd": Scenario(what="2,000 flows, back at 50/s", flows=2_000, outage=Outage()),
    "quick": Scenario(what="2,000 flows, back at 500/s", flows=2_000, outage=Outage(rate=500)),
    "slow": Scenario(what="300 flows, back at 5/s", flows=300, outage=Outage(rate=5)),
    "flapping": Scenario(
        what="1,000 flows, back at 50/s, down again from the 15th to the 25th second",
        flows=1_000,
        outage=Outage(again=(15.0, 25.0)),
    ),
    "queueing": Scenario(what="1,000 flows, back at 50/s, the rest must wait", flows=1_000, outage=Outage(queues=True)),
    "few": Scenario(what="20 flows, back at 50/s", flows=20, outage=Outage()),
}
QUICK = ("herd",)
CASES = (
    Case(name="needed_s", unit="s", what="what all flows take at the rate of the server"),
    Case(name="done_s", unit="s", what="from its return to the last flow; the probe comes 10 s after its return"),
    Case(name="refused_percent", unit="percent", what="requests that it refused after its return"),
    Case(name="deferrals", unit="", what="deferrals in the log of a flow"),
    Case(name="lost", unit="", what="flows that did not complete"),
)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    count: Count
    completed: int
    dead: int
    deferrals: float
    """Deferrals in the log, for each flow."""


def main() -> None:
    parser = argparse.ArgumentParser(description="How soon flows are done once their dependency is back.")
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON array")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument("case", nargs="*", help=f"some of {', '.join(SCENARIOS)}; all by default")
    options = parser.parse_args()
    unknown = [name for name in options.case if name not in SCENARIOS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no case; use {', '.join(SCENARIOS)}")
    names = options.case or (QUICK if options.quick else list(SCENARIOS))
    figures: list[Figure] = []
    budgets: list[Budget] = []
    with progress(steps=len(names)) as bar:
        for name in names:
            step(bar, name)
            scenario = SCENARIOS[name]
            result = run(_measured(scenario))
            needed = scenario.flows / scenario.outage.rate
            count = result.count
            refused = 100 * count.refused / max(1, count.done + count.refused)
            lost = float(scenario.flows - result.completed)
            values = needed, count.last, refused, result.deferrals, lost
            for case, value in zip(CASES, values, strict=True):
                figures.append(Figure(system=name, case=case.name, value=round(value, 2), unit=case.unit))
            if name == "herd":
                share = count.last / needed
                budgets += [
                    Budget(what="herd: done in 1.5 times what it needs", measured=f"{share:.2f}", met=share <= 1.5),
                    Budget(what="herd: 10 % refused at most", measured=f"{refused:.1f} %", met=refused <= 10),
                ]
    show(Outcome(title="recovery", cases=CASES, figures=figures, budgets=budgets), as_json=options.json)
    if not options.json:
        print(*(f"{name}: {SCENARIOS[name].what}" for name in names), sep="\n")


@contextmanager
def _server(outage: Outage) -> Iterator[str]:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.recovering_server", msgspec.json.encode(outage).decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/step"
        finally:
            process.kill()


async def _measured(scenario: Scenario) -> Result:
    with _server(scenario.outage) as url, tempfile.TemporaryDirectory(prefix="redrive-recovery-") as folder:
        graph = redrive.Graph("recovery").step(
            "call", url, inputs={"value": "integer"}, outputs={"seen": "any"}, dependency="server"
        )
        redrive.register_graph(graph)
        http = redrive.HttpSettings(allow=("127.0.0.0/8",))
        async with redrive.open(f"sqlite:///{folder}/recovery.db", http=http) as app:
            flows = [await app.start(graph.call({"value": value})) for value in range(scenario.flows)]
            began = perf_counter()
            left = {flow.id for flow in flows}
            dead = 0
            while left and perf_counter() - began < MOST_SECONDS:
                await asyncio.sleep(LOOK_AGAIN)  # noqa: TID251 - nobody tells
                found = await app.store.find_flows(list(left))
                dead += sum(record.status == "failed" for record in found.values())
                left -= {record.id for record in found.values() if record.status in ("completed", "failed")}
            logs = [await app.log(flow.id) for flow in flows]
            deferrals = sum(isinstance(line.event, ItemDeferred) for lines in logs for line in lines)
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                count = msgspec.json.decode(await answer.read(), type=Count)
        return Result(
            count=count,
            completed=len(flows) - len(left) - dead,
            dead=dead,
            deferrals=deferrals / len(flows),
        )


if __name__ == "__main__":
    main()
