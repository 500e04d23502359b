"""How quick the dashboard is in a browser: `python -m benchmarks.dashboard_browser [--json] [--quick] [--minutes N]`.

A real `redrive serve` and a real Chromium, on a store with 100,000 flows, 10,000 of them with a retry that waits, 1,000
of them dead, and one with 10,000 attempts. Medians of several looks; the load of the machine is printed with them.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.postgres_server import PostgresServer

from benchmarks.browser.full_server import fill_store, serving
from benchmarks.browser.views import RATE, Heap, Smoothness, Views, started_browser
from benchmarks.dashboard import FLOWS
from benchmarks.figures import OURS, Budget, Case, Figure, Outcome, progress, show, step

ATTEMPTS = 10_000
LOOKS, QUICK_LOOKS = 7, 2
WARM_UP = 0.2
"""The part of the time after which the heap is taken for warm."""
FLAT = 1.1
"""How many times as large the heap may be at the end."""
STORES = ("SQLite", "PostgreSQL")
CASES = {
    "now_ms": "from the request for the page until the view Now is shown, in a browser that has not been there before",
    "flows_ms": "from a click on Flows until 50 of them are shown",
    "flows_first_ms": "the same as the first view of a browser",
    "filter_ms": "from a click on a filter of Flows until it is shown, for the slowest one",
    "attempts_ms": f"from the request for the page of a flow with {ATTEMPTS:,} attempts until they are shown",
    "change_ms": "from the request to pause or resume a flow until its page shows it",
    "new_flow_ms": "from the request to start a flow until the list shows it",
    "busy_change_ms": f"the same as change_ms while {RATE:.0f} other flows a second start and complete",
    "rate": "how many flows a second were started then",
    "busy_frames": "frames a second of Flows while they do",
    "busy_task_ms": "the longest task of the main thread meanwhile; 0 if none took 50 ms",
    "flood_frames": f"frames a second while the page receives {RATE:.0f} snapshots a second; the worst of three views",
    "flood_gap_ms": "the longest time between two of these frames",
    "flood_task_ms": "the longest task of the main thread meanwhile; 0 if none took 50 ms",
    "heap_warm_mb": "the JavaScript heap after forced garbage collections, under this flood, from view to view",
    "heap_end_mb": "the same at the end",
    "nodes_warm": "nodes of the document, and detached ones, at the same times",
    "nodes_end": "the same at the end",
}
UNITS = {"rate": "a second", "frames": "a second", "ms": "ms", "mb": "MB", "warm": "", "end": ""}
BUDGETS = (
    (("now_ms", "flows_ms", "flows_first_ms"), 1000.0, "the first view and Flows within 1 s"),
    (("filter_ms",), 300.0, "each filter within 300 ms"),
    (("attempts_ms",), 1000.0, f"a flow with {ATTEMPTS:,} attempts within 1 s"),
    (("change_ms", "new_flow_ms", "busy_change_ms"), 1000.0, "a change within 1 s"),
    (("busy_task_ms", "flood_task_ms"), 200.0, "no task of the main thread longer than 200 ms under updates"),
)


def main() -> None:
    options = _options()
    flows, attempts = (FLOWS // 10, ATTEMPTS // 10) if options.quick else (FLOWS, ATTEMPTS)
    figures: list[Figure] = []
    began_with = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="redrive-browser-") as folder, progress(len(options.store)) as bar:
        for name in options.store:
            server = PostgresServer(durable=True) if name == "PostgreSQL" else None
            address = server.fresh_database() if server else f"sqlite:///{Path(folder) / 'bench.db'}"
            step(bar, name)
            try:
                measured = _measure(address, Path(folder), flows, attempts, options)
            finally:
                if server:
                    server.remove()
            system = f"{OURS} on {name}"
            figures += [
                Figure(system=system, case=case, value=round(value, 3), unit=_unit(case))
                for case, value in measured.items()
            ]
    measured_cases = {figure.case for figure in figures}
    cases = [
        Case(name=name, unit=_unit(name), what=what, compared=False)
        for name, what in CASES.items()
        if name in measured_cases
    ]
    budgets = [budget for name in options.store for budget in _budgets(figures, name)]
    title = f"the dashboard in a browser, over {flows:,} flows"
    show(Outcome(title=title, cases=cases, figures=figures, budgets=budgets), options.json)
    load = f"load of the machine: {began_with:.1f} at the beginning, {os.getloadavg()[0]:.1f} at the end"
    print(load, file=sys.stderr if options.json else sys.stdout)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How quick the dashboard is in a browser.")
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON array")
    parser.add_argument("--quick", action="store_true", help="a tenth of the flows, and fewer looks")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the heap is watched, on SQLite; 0: not")
    parser.add_argument("--only-heap", action="store_true", help="watch the heap, and measure nothing else")
    parser.add_argument("--store", choices=STORES, action="append", help="only this store; repeatable")
    options = parser.parse_args()
    options.store = options.store or list(STORES)
    return options


def _measure(address: str, folder: Path, flows: int, attempts: int, options: argparse.Namespace) -> dict[str, float]:
    long_flow = asyncio.run(fill_store(address, flows, attempts))
    with serving(address, folder) as server, started_browser() as browser:
        views = Views(browser, server, QUICK_LOOKS if options.quick else LOOKS)
        found: dict[str, float] = {}
        if not options.only_heap:
            found |= _quickness(views, long_flow)
            with server.busy(RATE) as rates:
                found["busy_change_ms"] = views.change_of_a_flow()
                busy = views.updated("/flows", "flows", flood=False)
            found |= {"rate": rates[0], "busy_frames": busy.frames, "busy_task_ms": busy.task}
            found |= _flood(views, long_flow)
        if options.minutes and address.startswith("sqlite"):
            found |= _heap(list(views.heap(options.minutes, long_flow)))
    return found


def _quickness(views: Views, long_flow: str) -> dict[str, float]:
    filters = views.filters()
    for name, took in filters.items():
        print(f"  filter {name}: {took:.0f} ms", file=sys.stderr)
    return {
        "now_ms": views.opened("/", "now"),
        "flows_ms": views.from_now_to_flows(),
        "flows_first_ms": views.opened("/flows", "flows"),
        "filter_ms": max(filters.values()),
        "attempts_ms": views.opened(f"/flows/{long_flow}", "flow"),
        "change_ms": views.change_of_a_flow(),
        "new_flow_ms": views.new_flow_in_the_list(),
    }


def _flood(views: Views, long_flow: str) -> dict[str, float]:
    places = (("/", "now"), ("/flows", "flows"), (f"/flows/{long_flow}", "flow"))
    seen: list[Smoothness] = []
    for path, view in places:
        seen.append(views.updated(path, view, flood=True))
        print(f"  flood of {view}: {seen[-1]}", file=sys.stderr)
    return {
        "flood_frames": min(one.frames for one in seen),
        "flood_gap_ms": max(one.gap for one in seen),
        "flood_task_ms": max(one.task for one in seen),
    }


def _heap(seen: Sequence[Heap]) -> dict[str, float]:
    for one in seen:
        print(f"  heap at {one.seconds:.0f} s: {one.megabytes:.2f} MB, {one.nodes} nodes", file=sys.stderr)
    few = max(1, int(len(seen) * WARM_UP))
    warm, end = seen[few : 2 * few] or seen[:1], seen[-few:]
    return {
        "heap_warm_mb": median(one.megabytes for one in warm),
        "heap_end_mb": median(one.megabytes for one in end),
        "nodes_warm": median(one.nodes for one in warm),
        "nodes_end": median(one.nodes for one in end),
    }


def _unit(case: str) -> str:
    return UNITS[case.rpartition("_")[2]]


def _budgets(figures: Sequence[Figure], name: str) -> list[Budget]:
    found = {one.case: one.value for one in figures if one.system == f"{OURS} on {name}"}
    budgets = []
    for cases, most, what in BUDGETS:
        values = [found[case] for case in cases if case in found]
        if values:
            measured = ", ".join(f"{value:.0f} ms" for value in values)
            budgets.append(Budget(what=f"{name}: {what}", measured=measured, met=max(values) < most))
    if "heap_end_mb" in found:
        warm, end = found["heap_warm_mb"], found["heap_end_mb"]
        what = f"{name}: a heap that does not grow by more than {FLAT - 1:.0%}"
        budgets.append(Budget(what=what, measured=f"{warm:.1f} MB, then {end:.1f} MB", met=end < warm * FLAT))
    return budgets


if __name__ == "__main__":
    main()
