"""`redrive policy convert` and `redrive policy schema`: policies in other notations, and the native one described."""

from typing import Annotated

import typer

from redrive.cli.commands.policy.convert_source import convert_source
from redrive.cli.commands.policy.source import FileArgument, FromOrPythonOption, TextOption, is_python, read_source
from redrive.cli.output import JsonOption, print_json, print_warnings, warnings_as_data
from redrive.notation.catalogue import WRITABLE
from redrive.notation.formats.native_json_schema import native_schema
from redrive.notation.read import read_policy
from redrive.notation.write import write_lossy, write_policy


def convert_command(
    file: FileArgument = "",
    text: TextOption = "",
    notation: FromOrPythonOption = "auto",
    to: Annotated[str, typer.Option("--to", metavar="NOTATION", help=f"One of {', '.join(WRITABLE)}.")] = "native",
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Write the nearest equivalent, and say on stderr what was lost.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Convert a policy to another notation. What that notation cannot express is an error, unless --lossy is given.

    In a Python file, the retry settings of tenacity, stamina, backoff, Celery and Temporal are converted, each to
    Python code and to the notation; the file is never run. Exit code 1: some settings are known only at run time.

    \b
    redrive policy convert tasks.py
    redrive policy convert step.json --to native
    redrive policy convert --text '@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))' --to brackets
    redrive policy convert policy.yaml --to work_config --lossy
    """
    content, source = read_source(file, text)
    if is_python(file, notation):
        return convert_source(content, source, to, lossy=lossy, as_json=as_json)
    reading = read_policy(content, notation, source)
    if lossy:
        written, lost = write_lossy(reading.policy, to)
    else:
        written, lost = write_policy(reading.policy, to), ()
    if as_json:
        print_json(
            {
                "source": source,
                "from": reading.notation,
                "to": to,
                "text": written,
                "warnings": warnings_as_data((*reading.warnings, *lost)),
            }
        )
        return 0
    print_warnings((*reading.warnings, *lost), source)
    typer.echo(written, nl=False)
    return 0


def schema_command(as_json: JsonOption = False) -> None:
    """Print the JSON Schema of the native notation, for editors and for checks in CI.

    \b
    redrive policy schema > policy.schema.json
    """
    print_json(native_schema())
