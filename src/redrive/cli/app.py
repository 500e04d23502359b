"""Assemble the commands, and turn errors into a line on stderr and an exit code."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

import redrive
from redrive.cli import demo, doctor, explain, script, serve, start, worker
from redrive.cli import run as run_flow
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.command_groups import ListByDefault
from redrive.cli.dead import discard, show
from redrive.cli.dead import list as list_dead
from redrive.cli.dead import redrive as redrive_dead
from redrive.cli.exit_codes import BAD_INPUT
from redrive.cli.flows import cancel, complete, pause, reset, resolve, result, resume
from redrive.cli.flows import list as list_flows
from redrive.cli.flows import steps as flow_steps
from redrive.cli.keys import add as add_key
from redrive.cli.keys import list as list_keys
from redrive.cli.keys import revoke
from redrive.cli.policy import convert, lint, preview, schema
from redrive.cli.steps import add as add_step
from redrive.cli.steps import drop as drop_step
from redrive.cli.steps import list as list_steps
from redrive.errors import NotationError
from redrive.notation.errors import printable

# The base of all errors about the command line itself. typer exports only its subclasses, and where the base lives
# differs between its versions.
_CommandLineError: Any = typer.BadParameter.__mro__[2]


def build() -> typer.Typer:
    """Build the whole command tree."""
    app = typer.Typer(
        help="Run work that may fail, until it succeeds or until someone knows exactly why it did not.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    app.command("run")(run_flow.run_command)
    app.command("worker")(worker.worker_command)
    app.command("serve")(serve.serve_command)
    app.command("start")(start.start_command)
    app.add_typer(_flows(), name="flows")
    app.command("explain")(explain.explain_command)
    app.add_typer(_dead(), name="dead")
    app.add_typer(_steps(), name="steps")
    app.add_typer(_keys(), name="keys")
    app.command("doctor")(doctor.doctor_command)
    app.command("demo")(demo.demo_command)
    app.add_typer(_policy(), name="policy")
    app.add_typer(_script(), name="script")
    return app


def _flows() -> typer.Typer:
    group = typer.Typer(
        cls=ListByDefault,
        help="List flows, and cancel, pause or resume them. Without a command, list them with the options of "
        "`list`:\n\n\b\nredrive flows\nredrive flows --status waiting --definition Billing",
        rich_markup_mode=None,
    )
    group.command("list")(list_flows.list_command)
    group.command("cancel")(cancel.cancel_command)
    group.command("pause")(pause.pause_command)
    group.command("resume")(resume.resume_command)
    group.command("result")(result.result_command)
    group.command("steps")(flow_steps.steps_command)
    group.command("reset")(reset.reset_command)
    group.command("complete")(complete.complete_command)
    group.command("resolve")(resolve.resolve_command)
    return group


def _dead() -> typer.Typer:
    group = typer.Typer(
        cls=ListByDefault,
        help="Dead letters, flows that failed for good: inspect, redrive or discard them. Without a command, list them "
        "with the options of `list`:\n\n\b\nredrive dead\nredrive dead --kind exhausted --definition Billing",
        rich_markup_mode=None,
    )
    group.command("list")(list_dead.list_command)
    group.command("show")(show.show_command)
    group.command("redrive")(redrive_dead.redrive_command)
    group.command("discard")(discard.discard_command)
    return group


def _steps() -> typer.Typer:
    group = typer.Typer(
        cls=ListByDefault,
        help="The catalogue of steps that flows are planned from: list, add, drop.\n\n\b\nredrive steps",
        rich_markup_mode=None,
    )
    group.command("list")(list_steps.list_command)
    group.command("add")(add_step.add_command)
    group.command("drop")(drop_step.drop_command)
    return group


def _keys() -> typer.Typer:
    group = typer.Typer(
        cls=ListByDefault,
        help="API keys of the HTTP server: list, add, revoke.\n\n\b\nredrive keys",
        rich_markup_mode=None,
    )
    group.command("list")(list_keys.list_command)
    group.command("add")(add_key.add_command)
    group.command("revoke")(revoke.revoke_command)
    return group


def _policy() -> typer.Typer:
    policy = typer.Typer(
        help="Preview, lint and convert retry policies, in any notation.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    policy.command("preview")(preview.preview_command)
    policy.command("lint")(lint.lint_command)
    policy.command("convert")(convert.convert_command)
    policy.command("schema")(schema.schema_command)
    return policy


def _script() -> typer.Typer:
    group = typer.Typer(help="Format and check scripts.", no_args_is_help=True, rich_markup_mode=None)
    group.command("fmt")(script.fmt_command)
    group.command("check")(script.check_command)
    return group


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
        message = printable(error.format_message().rstrip("."), longest=400)
        return _report(f"redrive: {message}; see redrive --help")
    except SystemExit:
        # typer's parser raises it when its output pipe is closed; no command does.
        raise BrokenPipeError from None
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return _report("redrive: stopped")
    return outcome if isinstance(outcome, int) else 0


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
