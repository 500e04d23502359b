"""`redrive script`: format and check scripts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions.files import read_text
from redrive.cli.definitions.named import load
from redrive.cli.exit_codes import BAD_INPUT, FAILED
from redrive.cli.output import JsonOption, print_json

if TYPE_CHECKING:
    from redrive.flows.scripts.errors import Problem

FilesArgument = Annotated[list[str], typer.Argument(metavar="FILE...", help="Script files, such as order.rd.")]


def fmt_command(
    files: FilesArgument,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")] = False,
) -> int:
    """Format scripts: four spaces, short lines, comments kept.

    \b
    redrive script fmt order.rd
    redrive script fmt --check *.rd
    """
    from redrive.errors import ScriptError
    from redrive.flows.scripts.formatting import format_script

    code = 0
    for file in files:
        text = read_text(Path(file))
        try:
            formatted = format_script(text, file)
        except ScriptError as error:
            typer.echo(str(error), err=True)
            code = BAD_INPUT
            continue
        if formatted.encode() == _bytes_of(file):
            continue
        if check:
            typer.echo(f"{file}: would be reformatted")
            code = code or FAILED
        else:
            _write(file, formatted)
            typer.echo(f"{file}: reformatted")
    return code


def check_command(
    files: FilesArgument,
    imports: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="A module with the actions that the scripts call; repeatable."),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="A warning to ignore, such as RD001; repeatable.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Check scripts before they run. Exit code 0: no errors, 1: errors, 2: a file cannot be read.

    With --import, the names of actions and of their arguments are checked too. Warnings are about scripts that run but
    could be better: they are printed, and count as errors only with --strict.

    \b
    redrive script check order.rd
    redrive script check *.rd --import shop.actions --json
    redrive script check *.rd --strict --ignore RD001
    """
    if imports:
        load(imports)
    ignored = _known_rules(ignore or [])
    problems = {
        file: [one for one in _problems(file, bool(imports)) if one.severity == "error" or one.rule not in ignored]
        for file in files
    }
    if as_json:
        print_json([{"source": file, "problems": [_as_data(one) for one in found]} for file, found in problems.items()])
    else:
        for file, found in problems.items():
            typer.echo("\n".join(str(one) for one in found) if found else f"{file}: no problems found")
    failed = (one for found in problems.values() for one in found if strict or one.severity == "error")
    return FAILED if any(failed) else 0


def _known_rules(names: list[str]) -> set[str]:
    from redrive.flows.scripts.checking import WARNINGS
    from redrive.notation.linting.linter import RULES

    rules = {name.lower(): name for name in (*WARNINGS, *RULES)}
    for name in names:
        if name.lower() not in rules:
            known = f"{', '.join(WARNINGS)}, and the rules of redrive policy lint --rules"
            raise BadInput(f"--ignore {name}: unknown warning; use one of {known}")
    return {rules[name.lower()] for name in names}


def _problems(file: str, with_actions: bool) -> "list[Problem]":
    from redrive.flows.action import known_actions
    from redrive.flows.scripts.checking import check_text

    return check_text(read_text(Path(file)), file, actions=known_actions() if with_actions else None)


def _as_data(problem: "Problem") -> dict[str, str | int]:
    return {
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity,
        "rule": problem.rule,
        "message": problem.message,
    }


def _bytes_of(file: str) -> bytes:
    return Path(file).read_bytes()


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_bytes(text.encode())
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror or error}") from None
