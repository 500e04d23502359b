"""`redrive policy schema`: print the JSON Schema of the native notation."""

from redrive.cli.output import JsonOption, print_json
from redrive.notation.formats.native_json_schema import native_schema


def schema_command(as_json: JsonOption = False) -> None:
    """Print the JSON Schema of the native notation, for editors and for checks in CI.

    \b
    redrive policy schema > policy.schema.json
    """
    print_json(native_schema())
