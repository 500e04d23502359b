"""The commands, put together; and the one place where an error becomes a line on stderr and an exit code."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

import redrive
from redrive.cli import (
    dead,
    doctor,
    explain,
    flow_steps,
    flows,
    keys,
    policy_convert,
    policy_lint,
    policy_preview,
    policy_schema,
    script,
    serve,
    start,
    steps,
    worker,
)
from redrive.cli import run as run_flow
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.command_groups import ListsByDefault
from redrive.cli.exit_codes import BAD_INPUT
from redrive.errors import NotationError
from redrive.notation.errors import printable

# The base of all errors about the command line itself. typer names only its children, and where the base lives
# differs between its versions.
_CommandLineError: Any = typer.BadParameter.__mro__[2]


def build() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        help="Runs work that fails until it succeeds, or until someone knows exactly why it did not.",
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
    app.add_typer(_policy(), name="policy")
    app.add_typer(_script(), name="script")
    return app


def _flows() -> typer.Typer:
    group = typer.Typer(
        cls=ListsByDefault,
        help="List flows, and tell them to stop, pause or go on. Without a command it lists, with the options of "
        "`list`:\n\n\b\nredrive flows\nredrive flows --status waiting --definition Billing",
        rich_markup_mode=None,
    )
    group.command("list")(flows.list_command)
    group.command("cancel")(flows.cancel_command)
    group.command("pause")(flows.pause_command)
    group.command("resume")(flows.resume_command)
    group.command("result")(flows.result_command)
    group.command("steps")(flow_steps.steps_command)
    group.command("reset")(flow_steps.reset_command)
    group.command("complete")(flow_steps.complete_command)
    group.command("resolve")(flow_steps.resolve_command)
    return group


def _dead() -> typer.Typer:
    group = typer.Typer(
        cls=ListsByDefault,
        help="What failed for good: look at it, put it back to work. Without a command it lists, with the options of "
        "`list`:\n\n\b\nredrive dead\nredrive dead --kind exhausted --definition Billing",
        rich_markup_mode=None,
    )
    group.command("list")(dead.list_command)
    group.command("show")(dead.show_command)
    group.command("redrive")(dead.redrive_command)
    group.command("discard")(dead.discard_command)
    return group


def _steps() -> typer.Typer:
    group = typer.Typer(
        cls=ListsByDefault, help="The catalogue of steps that flows are planned from.", rich_markup_mode=None
    )
    group.command("list")(steps.list_command)
    group.command("add")(steps.add_command)
    group.command("drop")(steps.drop_command)
    return group


def _keys() -> typer.Typer:
    group = typer.Typer(cls=ListsByDefault, help="API keys: who may use the HTTP server.", rich_markup_mode=None)
    group.command("list")(keys.list_command)
    group.command("add")(keys.add_command)
    group.command("revoke")(keys.revoke_command)
    return group


def _policy() -> typer.Typer:
    policy = typer.Typer(
        help="Look at retry policies, in whichever notation they are written.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    policy.command("preview")(policy_preview.preview_command)
    policy.command("lint")(policy_lint.lint_command)
    policy.command("convert")(policy_convert.convert_command)
    policy.command("schema")(policy_schema.schema_command)
    return policy


def _script() -> typer.Typer:
    group = typer.Typer(help="Flows as text: format and check scripts.", no_args_is_help=True, rich_markup_mode=None)
    group.command("fmt")(script.fmt_command)
    group.command("check")(script.check_command)
    return group


@cache
def _command() -> Any:
    """Putting the commands together takes longer than most of them."""
    return typer.main.get_command(build())


def _check_text(argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError:
        raise BadInput(f"the argument {argument!a} has bytes that are not UTF-8; write it in UTF-8") from None


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Bad input is one line on stderr and exit code 2, never a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        for argument in given:
            _check_text(argument)
        outcome = _command().main(args=given, prog_name="redrive", standalone_mode=False)
    except (NotationError, BadFile) as error:
        return _complain(str(error))
    except BadInput as error:
        return _complain(f"redrive: {printable(str(error), longest=1000)}")
    except _CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            return BAD_INPUT
        said = printable(error.format_message().rstrip("."), longest=400)
        return _complain(f"redrive: {said}; see redrive --help")
    except SystemExit:
        # How typer's parser leaves when nobody reads its output any more; no command leaves so.
        raise BrokenPipeError from None
    except typer.Exit as leaving:
        return leaving.exit_code
    except typer.Abort:
        return _complain("redrive: stopped")
    return outcome if isinstance(outcome, int) else 0


def _complain(line: str) -> int:
    typer.echo(line, err=True)
    return BAD_INPUT


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"redrive {redrive.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass
