"""The one shape all benchmarks print: a table for people, and with --json an array of records for machines.

{"system": "redrive", "case": "success_sync_ns", "value": 181.2, "unit": "ns"}
"""

import argparse
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

OURS = "redrive"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number."""

    system: str
    case: str
    value: float
    unit: str


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    name: str
    unit: str
    what: str
    """In words, for the line under the table."""
    compared: bool = True
    """Whether the table sets the figures in relation to ours."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What we allow ourselves, and whether this run kept to it. Shown, never asserted: machines differ."""

    what: str
    measured: str
    met: bool


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run of a benchmark has to show."""

    title: str
    cases: Sequence[Case]
    figures: Sequence[Figure]
    left_out: Mapping[tuple[str, str], str] = {}
    """(system, case) -> why there is no figure."""
    reference_systems: Sequence[str] = ()
    """Systems that are no competitors but what the others are measured against; no ratio is shown for them."""
    budgets: Sequence[Budget] = ()


def arguments(description: str) -> argparse.Namespace:
    """The options that all benchmarks share: --json and --quick."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print the figures as a JSON array")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures in less time")
    return parser.parse_args()


def show(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(list(outcome.figures)), indent=2).decode())
        for (system, case_name), why in outcome.left_out.items():
            print(f"no {case_name} for {system}: {why}", file=sys.stderr)
        return
    console = Console()
    console.print(_table(outcome))
    for case in outcome.cases:
        console.print(f"[bold]{case.name}[/]: {case.what}", soft_wrap=True)
    for (system, case_name), why in outcome.left_out.items():
        console.print(f"no {case_name} for {system}: {why}", soft_wrap=True)
    for budget in outcome.budgets:
        verdict = "[green]met[/]" if budget.met else "[red]missed[/]"
        console.print(f"budget {verdict}: {budget.what}; measured: {budget.measured}", soft_wrap=True)
    console.print(
        f"measured with {platform.python_implementation()} {platform.python_version()} on {os.cpu_count()} cores",
        style="dim",
    )


def value_of(figures: Iterable[Figure], system: str, case: str) -> float | None:
    return next((one.value for one in figures if (one.system, one.case) == (system, case)), None)


@contextmanager
def progress(steps: int) -> Iterator[Progress]:
    """A progress bar on stderr, so that it never mixes with the figures; without a terminal there is none."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        bar.add_task("measuring", total=steps)
        yield bar


def step(bar: Progress, what: str) -> None:
    """Name what is measured next and count it."""
    if bar.disable:
        print(f"measuring: {what}", file=sys.stderr, flush=True)
    bar.update(bar.task_ids[0], description=what, advance=1)


def _table(outcome: Outcome) -> Table:
    table = Table(title=outcome.title, title_justify="left", caption_justify="left")
    table.add_column("system")
    for case in outcome.cases:
        table.add_column(f"{case.name}\n({case.unit})", justify="right")
    for system in dict.fromkeys(one.system for one in outcome.figures):
        cells = [_cell(outcome, system, case) for case in outcome.cases]
        table.add_row(system, *cells, style="bold" if system == OURS else None)
    return table


def _cell(outcome: Outcome, system: str, case: Case) -> str:
    value = value_of(outcome.figures, system, case.name)
    if value is None:
        return "-"
    ours = value_of(outcome.figures, OURS, case.name)
    shown = _rounded(value)
    if not case.compared or not ours or system == OURS or system in outcome.reference_systems:
        return shown
    return f"{shown} [dim](x{_rounded(value / ours)})[/]"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:,.2f}"
