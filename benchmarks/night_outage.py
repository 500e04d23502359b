"""The herd after a night's outage: `python -m benchmarks.night_outage [--json] [--flows N] [CASE ...]`.

Flows of one step start when their service goes down for nine hours. When it is back, it can do a fortieth of the flows
in each second, and refuses the rest with 503. One worker under the durable default policy, on a virtual clock: the
figures are those of the policy, and do not depend on the machine.
"""

import argparse
import asyncio

import msgspec

from benchmarks.figures import Budget, Case, Figure, Outcome, progress, show, step
from benchmarks.recovering_server import Outage, Server
from redrive import Graph, action
from redrive.stores.records import FINISHED
from redrive.testing import flow_app

NIGHT = 9 * 3600.0
FLOWS = 200
# Seconds that the service needs for all flows, at its full rate.
NEEDED = 40
LOOK_AGAIN = 1.0
# Nobody waits longer than the longest wait of the policy, and then some for the requests that are refused.
MOST_AFTERWARDS = 1200.0

CASES = (
    Case(name="attempts", unit="", what="requests during the outage, for each flow"),
    Case(name="needed_s", unit="s", what="what all flows take at the rate of the service"),
    Case(name="half_s", unit="s", what="from its return until half of the flows are done"),
    Case(name="done_s", unit="s", what="from its return until the last flow is done"),
    Case(name="peak_per_s", unit="", what="the most requests in any second after its return"),
    Case(name="refused_percent", unit="percent", what="requests that it refused after its return"),
    Case(name="lost", unit="", what="flows that did not complete"),
)
SCENARIOS = {
    "alone": "each flow waits as its policy says",
    "dependency": 'the step has dependency="service": a circuit holds flows back, and lets them go in a ramp',
}


class ServiceUnavailable(Exception):
    """What a client raises for a 503."""

    status_code = 503


class Result(msgspec.Struct, frozen=True, kw_only=True):
    server: Server
    completed: int


def main() -> None:
    parser = argparse.ArgumentParser(description="The herd after a night's outage.")
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON array")
    parser.add_argument("--flows", type=int, default=FLOWS, help=f"how many flows wait, at least {NEEDED}")
    parser.add_argument("case", nargs="*", help=f"some of {', '.join(SCENARIOS)}; all by default")
    options = parser.parse_args()
    unknown = [name for name in options.case if name not in SCENARIOS]
    if unknown:
        parser.error(f"{unknown[0]!r} is no case; use {', '.join(SCENARIOS)}")
    if options.flows < NEEDED:
        parser.error(f"--flows: {options.flows} is too few; use at least {NEEDED}")
    names = options.case or list(SCENARIOS)
    figures: list[Figure] = []
    budgets: list[Budget] = []
    with progress(steps=len(names)) as bar:
        for name in names:
            step(bar, name)
            result = asyncio.run(measured(name == "dependency", options.flows))
            found = values(result, options.flows)
            for case, value in zip(CASES, found, strict=True):
                figures.append(Figure(system=name, case=case.name, value=round(value, 2), unit=case.unit))
            lost = found[-1]
            budgets.append(Budget(what=f"{name}: no flow is lost", measured=f"{lost:g}", met=not lost))
    show(Outcome(title="night outage", cases=CASES, figures=figures, budgets=budgets), as_json=options.json)
    if not options.json:
        print(*(f"{name}: {SCENARIOS[name]}" for name in names), sep="\n")


def values(result: Result, flows: int) -> tuple[float, ...]:
    """The figures, in the order of `CASES`."""
    server = result.server
    done = sorted(server.done_at)
    return (
        server.down / flows,
        flows / server.outage.rate,
        done[len(done) // 2] if done else 0.0,
        server.count.last,
        float(max(server.in_second.values(), default=0)),
        100 * server.count.refused / max(1, server.count.done + server.count.refused),
        float(flows - result.completed),
    )


async def measured(with_dependency: bool, flows: int, night: float = NIGHT) -> Result:
    """Start the flows at dusk, and wait until all of them have ended."""
    async with flow_app() as app:
        server = Server(Outage(down=night, rate=flows // NEEDED), app.clock.wall)

        @action(name="night_outage.ask")
        async def ask(number: int) -> str:
            if server.answer_after() is None:
                raise ServiceUnavailable("503 Service Unavailable")
            return "done"

        graph = Graph("night_outage").step(
            "ask",
            ask,
            inputs={"number": "integer"},
            outputs=["answer"],
            dependency="service" if with_dependency else None,
        )
        with app.clock.frozen():
            started = [await app.start(graph.call({"number": number})) for number in range(flows)]
        left, completed = {flow.id for flow in started}, 0
        while left and app.clock.now < night + MOST_AFTERWARDS:
            await asyncio.sleep(LOOK_AGAIN)  # noqa: TID251 - real time passes for who looks on
            ended = [one for one in (await app.store.find_flows(list(left))).values() if one.status in FINISHED]
            completed += sum(one.status == "completed" for one in ended)
            left -= {one.id for one in ended}
        return Result(server=server, completed=completed)


if __name__ == "__main__":
    main()
