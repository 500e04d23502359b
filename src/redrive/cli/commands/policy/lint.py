"""`redrive policy lint`: find problems in policies, and say what to write instead."""

from typing import Annotated

import msgspec
import typer

from redrive.cli.commands.policy.convert_source import print_unread, unread_as_data
from redrive.cli.commands.policy.source import FileArgument, FromOrPythonOption, TextOption, is_python, read_source
from redrive.cli.exit_codes import FAILED
from redrive.cli.output import JsonOption, print_json, print_table
from redrive.notation.errors import notation_error, printable, show_where
from redrive.notation.linting.linter import RULES, lint_text
from redrive.notation.python_source.lint_source import lint_source
from redrive.notation.python_source.read_source import Unread
from redrive.notation.read import read_policy
from redrive.notation.reading import Reading


def lint_command(
    file: FileArgument = "",
    text: TextOption = "",
    notation: FromOrPythonOption = "auto",
    inside: Annotated[
        str, typer.Option(metavar="FILE", help="The policy of an enclosing call, to find retries that multiply.")
    ] = "",
    ignore: Annotated[list[str] | None, typer.Option(metavar="ID", help="A rule to ignore; repeatable.")] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Check policies, alone or within a larger document. Exit code 0: clean, 1: warnings or errors, 2: unreadable.

    In a Python file, the retry settings of tenacity, stamina, backoff, Celery and Temporal are checked, without running
    it. Settings that are known only at run time are reported on stderr.

    \b
    redrive policy lint tasks.py
    redrive policy lint policy.yaml
    redrive policy lint --text '{"max_retries": -1}'
    redrive policy lint client.yaml --inside service.yaml --ignore RD014
    """
    if rules:
        _print_rules(as_json)
        return 0
    content, source = read_source(file, text)
    outer = _outer(inside) if inside else None
    ignored = _known_rules(ignore or [])
    unread: tuple[Unread, ...] = ()
    if is_python(file, notation):
        found, code = lint_source(content, source, outer)
        unread = code.unread
    else:
        found = lint_text(content, notation, source, outer)
    findings = [one for one in found if one.id not in ignored]
    if as_json:
        of_source = {"unread": unread_as_data(unread)} if is_python(file, notation) else {}
        print_json({"source": source, "findings": [msgspec.to_builtins(one) for one in findings], **of_source})
    else:
        print_unread(unread, source)
        for one in findings:
            message = printable(f"{one.key}: {one.text}; {one.instead}", longest=600)
            typer.echo(f"{show_where(source, one.line)}: {one.id} {one.severity}: {message}")
        if not findings:
            typer.echo(f"{show_where(source, None)}: no problems found")
    return FAILED if any(one.severity != "info" for one in findings) else 0


def _print_rules(as_json: bool) -> None:
    if as_json:
        print_json([{"id": name, "severity": rule.severity, "summary": rule.summary} for name, rule in RULES.items()])
    else:
        print_table(
            ("rule", "severity", "about"), [(name, rule.severity, rule.summary) for name, rule in RULES.items()]
        )


def _known_rules(ids: list[str]) -> set[str]:
    for name in ids:
        if name.upper() not in RULES:
            raise notation_error(
                "is not a rule", key="--ignore", value=name, allowed=", ".join(RULES), source="redrive"
            )
    return {name.upper() for name in ids}


def _outer(file: str) -> Reading:
    content, source = read_source(file, "")
    return read_policy(content, source=source)
