"""`redrive policy preview`: show every attempt that a policy allows."""

from typing import Annotated

import msgspec
import typer

from redrive.cli.commands.policy.source import FileArgument, FromOption, TextOption, read_source
from redrive.cli.output import JsonOption, print_json, print_table, print_warnings, warnings_as_data
from redrive.notation.durations import write_duration
from redrive.notation.errors import notation_error
from redrive.notation.fields import FAILURE_FORMS
from redrive.notation.formats.native import as_data
from redrive.notation.read import read_policy
from redrive.notation.reading import Reading
from redrive.policies.preview import ROWS, Preview, preview, preview_all, read_failure

_MOST_ROWS = 1000
_COLUMNS = ("attempt", "backoff", "wait from", "to", "begins at", "or at latest", "timeout")


def preview_command(
    file: FileArgument = "",
    text: TextOption = "",
    notation: FromOption = "auto",
    failure: Annotated[
        str,
        typer.Option(metavar="FAILURE", help="The failure: a class name, status:503, timeout, transient, ..."),
    ] = "",
    rows: Annotated[int, typer.Option(min=1, max=_MOST_ROWS, help="Show at most this many attempts.")] = ROWS,
    as_json: JsonOption = False,
) -> None:
    """Show each attempt of a policy: its backoff, the range of the jittered wait, when it begins, and the worst case.

    Each rule of the policy gets its own table, unless --failure selects one failure.

    \b
    redrive policy preview policy.yaml
    redrive policy preview --text '[RateLimitError -> retry: 10, backoff: 1m]'
    redrive policy preview policy.yaml --failure status:503
    """
    content, source = read_source(file, text)
    reading = read_policy(content, notation, source)
    previews = _previews(reading, failure, rows)
    if as_json:
        print_json(
            {
                "source": reading.source,
                "notation": reading.notation,
                "policy": as_data(reading.policy),
                "warnings": warnings_as_data(reading.warnings),
                "previews": [msgspec.to_builtins(one) for one in previews],
            }
        )
        return
    print_warnings(reading.warnings, reading.source)
    for one in previews:
        _print_preview(one, reading)


def _previews(reading: Reading, failure: str, rows: int) -> tuple[Preview, ...]:
    if not failure:
        return preview_all(reading.policy, rows)
    try:
        return (preview(reading.policy, read_failure(failure), rows),)
    except (ValueError, TypeError):
        raise notation_error(
            "is not a failure", key="--failure", value=failure, allowed=f"timeout, {FAILURE_FORMS}", source="redrive"
        ) from None


def _print_preview(one: Preview, reading: Reading) -> None:
    rule = reading.written.get(one.answered_by, one.answered_by)
    answer = "no rule matches" if rule == "none" else f"answered by {rule}"
    typer.echo(f"{one.failure}, {answer}")
    print_table(
        _COLUMNS,
        [
            (
                str(row.attempt),
                _seconds(row.raw),
                _seconds(row.low),
                _seconds(row.high),
                _seconds(row.earliest),
                "may not happen" if row.latest is None else _seconds(row.latest),
                _seconds(row.timeout),
            )
            for row in one.rows
        ],
        numbers=True,
    )
    if one.more_rows:
        of = "" if one.attempts is None else f" of {one.attempts}"
        typer.echo(f"... first {len(one.rows)}{of} attempts; --rows shows more")
    typer.echo(f"ends: {one.ends}, {one.because}")
    typer.echo(f"worst case: {_worst_case(one)}\n")


def _worst_case(one: Preview) -> str:
    waits = "unlimited waits" if one.worst_wait is None else f"{_seconds(one.worst_wait)} of waits"
    if one.worst_total is not None:
        return f"{waits}, {_seconds(one.worst_total)} in all"
    if one.worst_wait is None:
        return waits
    return f"{waits}, plus the time of the attempts, which have no timeout and no deadline"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else write_duration(round(seconds, 3))
