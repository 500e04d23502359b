"""Assemble the commands, and turn errors into a line on stderr and an exit code."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import redrive
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.commands import (
    archive,
    audit,
    batch,
    dashboard,
    demo,
    explain,
    export,
    keys,
    mcp,
    queues,
    replay,
    schedules,
    script,
    serve,
    start,
    steps,
    worker,
    workers,
)
from redrive.cli.commands import run as run_flow
from redrive.cli.commands.dead import list as list_dead
from redrive.cli.commands.dead import settlement, show
from redrive.cli.commands.doctor import command as doctor
from redrive.cli.commands.flows import list as list_flows
from redrive.cli.commands.flows import manual_resolution, query, requests, result, signal, unpin, update
from redrive.cli.commands.flows import steps as flow_steps
from redrive.cli.commands.policy import convert, lint, preview
from redrive.cli.exit_codes import BAD_INPUT
from redrive.errors import NotationError
from redrive.near_names import near_name
from redrive.notation.errors import printable

# The base of all errors about the command line itself. typer exports only its subclasses, and where the base lives
# differs between its versions.
_CommandLineError: Any = typer.BadParameter.__mro__[2]


def build() -> typer.Typer:
    """Build the whole command tree."""
    app = typer.Typer(
        cls=_Group,
        help="Run work that may fail, until it succeeds or until someone knows exactly why it did not.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    app.callback()(_options)
    app.command("demo")(demo.demo_command)
    app.command("run")(run_flow.run_command)
    app.command("worker")(worker.worker_command)
    app.command("serve")(serve.serve_command)
    app.command("dashboard")(dashboard.dashboard_command)
    app.command("start")(start.start_command)
    _add_group(
        app,
        "flows",
        "List flows, and cancel, pause, resume or retry them. Without a command, list them with the options of "
        "`list`:\n\n\b\nredrive flows\nredrive flows --status waiting --definition Billing",
        list=list_flows.list_command,
        cancel=requests.cancel_command,
        pause=requests.pause_command,
        resume=requests.resume_command,
        retry=requests.retry_command,
        policy=requests.policy_command,
        unpin=unpin.unpin_command,
        result=result.result_command,
        steps=flow_steps.steps_command,
        reset=manual_resolution.reset_command,
        complete=manual_resolution.complete_command,
        resolve=manual_resolution.resolve_command,
    )
    app.command("signal")(signal.signal_command)
    app.command("query")(query.query_command)
    app.command("update")(update.update_command)
    app.command("explain")(explain.explain_command)
    app.command("export")(export.export_command)
    app.command("archive")(archive.archive_command)
    app.command("replay")(replay.replay_command)
    _add_group(
        app,
        "dead",
        "Dead letters, flows that failed for good: inspect, redrive or discard them. Without a command, list them "
        "with the options of `list`:\n\n\b\nredrive dead\nredrive dead --kind exhausted --definition Billing",
        list=list_dead.list_command,
        show=show.show_command,
        redrive=settlement.redrive_command,
        discard=settlement.discard_command,
    )
    _add_group(
        app,
        "queues",
        "List queues, and pause, resume or limit them.\n\n\b\nredrive queues",
        list=queues.list_command,
        pause=queues.pause_command,
        resume=queues.resume_command,
        limit=queues.limit_command,
        set=queues.set_command,
    )
    _add_group(
        app,
        "schedules",
        "Schedules, which start flows by themselves: list, show, add, pause, resume, trigger, backfill, delete."
        "\n\n\b\nredrive schedules",
        list=schedules.list_command,
        show=schedules.show_command,
        add=schedules.add_command,
        pause=schedules.pause_command,
        resume=schedules.resume_command,
        trigger=schedules.trigger_command,
        backfill=schedules.backfill_command,
        delete=schedules.delete_command,
    )
    _add_group(
        app,
        "batch",
        "Batches, flows that are counted and awaited together.\n\n\b\nredrive batch list",
        list=batch.list_command,
        start=batch.start_command,
        watch=batch.watch_command,
        show=batch.show_command,
        cancel=batch.cancel_command,
        redrive=batch.redrive_command,
    )
    app.command("workers")(workers.workers_command)
    _add_group(
        app,
        "steps",
        "The catalogue of steps that flows are planned from: list, add, drop.\n\n\b\nredrive steps",
        list=steps.list_command,
        add=steps.add_command,
        drop=steps.drop_command,
    )
    _add_group(
        app,
        "keys",
        "API keys of the HTTP server: list, add, rotate, revoke; and secrets for signing.\n\n\b\nredrive keys",
        list=keys.list_command,
        add=keys.add_command,
        rotate=keys.rotate_command,
        revoke=keys.revoke_command,
        open=keys.open_command,
        secret=keys.secret_command,
    )
    app.command("audit")(audit.audit_command)
    app.command("doctor")(doctor.doctor_command)
    _add_group(
        app,
        "policy",
        "Preview, lint and convert retry policies, in any notation.",
        preview=preview.preview_command,
        lint=lint.lint_command,
        convert=convert.convert_command,
        schema=convert.schema_command,
    )
    app.command("mcp")(mcp.mcp_command)
    _add_group(app, "script", "Format and check scripts.", fmt=script.fmt_command, check=script.check_command)
    return app


class _Group(TyperGroup):
    """A group that says which command was probably meant, also if it belongs to another group."""

    suggest_commands = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except _CommandLineError as error:
            if meant := _command_meant(ctx, self.commands, args[0]):
                raise BadInput(f"no such command {args[0]!r}; did you mean: {meant}?") from None
            raise error


def _command_meant(context: Any, commands: Mapping[str, Any], given: str) -> str:
    if given in _ALIASES:
        return f"redrive {_ALIASES[given]}"
    if close := near_name(given, commands):
        return f"{context.command_path} {close}"
    groups = context.find_root().command.commands
    elsewhere = [name for name, group in groups.items() if given in getattr(group, "commands", ())]
    return f"redrive {elsewhere[0]} {given}" if elsewhere else ""


# What other tools call it.
_ALIASES = {"show": "explain FLOW", "status": "explain FLOW", "inspect": "explain FLOW", "ls": "flows", "list": "flows"}


class _ListByDefault(_Group):
    """A group that runs `list`, with any options given, when no command is named: `redrive flows --status ready`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def _add_group(app: typer.Typer, name: str, about: str, **commands: Callable[..., Any]) -> None:
    """Add a group of commands. One with a `list` runs that by default; any other shows its help."""
    lists = "list" in commands
    group = typer.Typer(
        cls=_ListByDefault if lists else _Group, help=about, no_args_is_help=not lists, rich_markup_mode=None
    )
    for command, run_command in commands.items():
        group.command(command)(run_command)
    app.add_typer(group, name=name)


@cache
def _command() -> Any:
    """Return the built command tree; building it takes longer than most commands do."""
    return typer.main.get_command(build())


def _check_utf8(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the argument {argument!a} is not valid UTF-8") from None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Bad input is one line on stderr and exit code 2, never a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        for argument in given:
            _check_utf8(argument)
        outcome = _command().main(args=given, prog_name="redrive", standalone_mode=False)
    except (NotationError, BadFile) as error:
        return _report(str(error))
    except BadInput as error:
        return _report(f"redrive: {printable(str(error), longest=1000)}")
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            return BAD_INPUT
        context = getattr(error, "ctx", None)
        message = printable(_option_meant(error, context) or error.format_message().rstrip("."), longest=400)
        command = context.command_path if context is not None else "redrive"
        return _report(f"redrive: {message}{' See' if message.endswith('?') else '; see'} {command} --help")
    except SystemExit:
        # typer's parser raises it when its output pipe is closed; no command does.
        raise BrokenPipeError from None
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return _report("redrive: stopped")
    return outcome if isinstance(outcome, int) else 0


def _option_meant(error: Any, context: Any) -> str:
    """Say which option was probably meant; empty for other errors."""
    given = getattr(error, "option_name", None)
    if context is None or given is None or not hasattr(error, "possibilities"):
        return ""
    if given[1:2].isdigit():
        return f"{given} is not a number that is allowed here: it is below 0"
    known = [name for option in context.command.params for name in option.opts if name.startswith("--")]
    close = near_name(given.removeprefix("--"), [name.removeprefix("--") for name in known])
    return f"no such option {given}{f'; did you mean --{close}?' if close else ''}"


def _report(line: str) -> int:
    typer.echo(line, err=True)
    return BAD_INPUT


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redrive {redrive.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass
