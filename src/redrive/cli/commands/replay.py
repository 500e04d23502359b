"""`redrive replay`: replay recorded flows against the code at hand, and say which would break."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.export import RecentOption
from redrive.cli.definitions.files import EnvOption
from redrive.cli.exit_codes import FAILED
from redrive.cli.options.shared import DefinitionOption, StoreOption
from redrive.cli.output import JsonOption, print_json
from redrive.cli.store_access import full_definition_name, refusals_as_bad_input, with_app

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.recorded_flows import RecordedFlow
    from redrive.worker.recovery.check_replay import BrokenReplay

MOST_SHOWN = 1000
TOLD_EVERY = 1000
"""Flows after which a line tells how far it is, where stderr is no terminal."""


def replay_command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|--recent N MODULE...",
            help="A file of `redrive export`, then the modules with the code: dotted names, or files.",
        ),
    ],
    recent: RecentOption = None,
    definition: DefinitionOption = "",
    env: EnvOption = "",
    store: StoreOption = "",
    as_json: JsonOption = False,
) -> int:
    """Replay recorded flows against the code at hand and say which would break. For CI, before a deploy.

    Nothing is written, and no attempt begins: only the code of the flows runs. The exit code is 1 if a flow would
    break, 0 otherwise.

    \b
    redrive replay flows.jsonl shop.flows
    redrive replay --recent 500 shop.flows --definition Billing --store postgresql://app@db/app
    """
    from redrive.cli.definitions.named import load

    file, modules = ("", names) if recent is not None else (names[0], names[1:])
    if not modules:
        raise BadInput("no module is given; name those that have the code: redrive replay flows.jsonl shop.flows")
    load(modules, env)
    report = Report()
    if recent is None:
        _replay_file(file, definition, report)
    else:
        _replay_recent(recent, definition, store, report)
    report.end_progress()
    if as_json:
        import msgspec

        broken = msgspec.to_builtins(report.shown)
        print_json({"replayed": report.replayed, "would_break": report.broken, "broken": broken})
    else:
        report.print()
    return FAILED if report.broken else 0


def _replay_file(file: str, definition: str, report: "Report") -> None:
    from redrive.client.recorded_flows import read_recorded

    found = 0
    with refusals_as_bad_input():
        try:
            for found, recorded in enumerate(read_recorded(file), start=1):  # noqa: B007 - counts the flows of the file
                if definition in ("", recorded.flow.definition, recorded.flow.definition.partition(":")[2]):
                    report.replay(recorded)
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror or error}") from None
    if not found:
        raise BadInput(f"{file}: it has no flows; write the file with `redrive export`")


def _replay_recent(recent: int, definition: str, store: str, report: "Report") -> None:
    from redrive.client.recorded_flows import export_flow, recent_flows

    async def replay(app: "App") -> None:
        name = await full_definition_name(app, definition)
        async for record in recent_flows(app.store, recent, name):
            report.replay(await export_flow(app.store, record))

    with_app(store, replay)


class Report:
    """What came of the flows that were replayed."""

    def __init__(self) -> None:
        self.replayed = 0
        self.broken = 0
        self.shown: list[BrokenReplay] = []
        self._is_terminal = sys.stderr.isatty()

    def replay(self, recorded: "RecordedFlow") -> None:
        from redrive.worker.recovery.check_replay import check_replay

        problem = check_replay(recorded.flow, recorded.log)
        self.replayed += 1
        if problem is not None:
            self.broken += 1
            if len(self.shown) < MOST_SHOWN:
                self.shown.append(problem)
        self._tell()

    def _tell(self) -> None:
        if self._is_terminal and self.replayed % 10 == 0:
            typer.echo(f"\r\x1b[Kreplayed {self.replayed}, {self.broken} would break", err=True, nl=False)
        elif not self._is_terminal and self.replayed % TOLD_EVERY == 0:
            typer.echo(f"replayed {self.replayed}, {self.broken} would break", err=True)

    def end_progress(self) -> None:
        if self._is_terminal:
            typer.echo("\r\x1b[K", err=True, nl=False)

    def print(self) -> None:
        from redrive.formatting.text import terminal_text

        for one in self.shown:
            typer.echo(f"{terminal_text(f'{one.definition} {one.flow_id}')} ({one.status}) would break")
            typer.echo(f"  {terminal_text(one.problem)}")
            typer.echo(f"  {one.advice}")
        if self.broken > len(self.shown):
            typer.echo(f"and {self.broken - len(self.shown)} more")
        flows = "1 flow" if self.replayed == 1 else f"{self.replayed} flows"
        typer.echo(f"replayed {flows}: {f'{self.broken} would break' if self.broken else 'none would break'}")
