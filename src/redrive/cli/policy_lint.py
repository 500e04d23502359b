"""`redrive policy lint`: what could be better about a policy, and what to write instead."""

from typing import Annotated

import msgspec
import typer

from redrive.cli.output import print_json
from redrive.cli.policy_input import FileArgument, FromOption, JsonOption, TextOption, read_input
from redrive.notation.errors import printable
from redrive.notation.linter import lint_text
from redrive.notation.read import read_policy
from redrive.notation.reading import Reading

FOUND = 1


def lint_command(
    file: FileArgument = "",
    text: TextOption = "",
    notation: FromOption = "auto",
    inside: Annotated[
        str, typer.Option(metavar="FILE", help="The policy of a call around the one this policy guards.")
    ] = "",
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A rule to leave out; may be repeated.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check policies, alone or in a larger document. Exit code 0: clean, 1: warnings or errors, 2: not readable.

    \b
    redrive policy lint policy.yaml
    redrive policy lint --text '{"max_retries": -1}'
    redrive policy lint client.yaml --inside service.yaml --ignore RD014
    """
    content, source = read_input(file, text)
    outer = _outer(inside) if inside else None
    ignored = set(ignore or ())
    findings = [one for one in lint_text(content, notation, source, outer) if one.id not in ignored]
    if as_json:
        print_json({"source": source, "findings": [msgspec.to_builtins(one) for one in findings]})
    else:
        for one in findings:
            where = printable(source) + (f":{one.line}" if one.line is not None else "")
            said = printable(f"{one.key}: {one.text}; {one.instead}", longest=600)
            typer.echo(f"{where}: {one.id} {one.severity}: {said}")
        if not findings:
            typer.echo(f"{printable(source)}: nothing to say against it")
    return FOUND if any(one.severity != "info" for one in findings) else 0


def _outer(file: str) -> Reading:
    content, source = read_input(file, "")
    return read_policy(content, source=source)
