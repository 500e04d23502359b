"""Read --input into the arguments of what is started."""

from typing import Annotated

import msgspec
import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.definitions.named import Call, Definition
from redrive.failures.redaction import redact

InputOption = Annotated[str, typer.Option("--input", metavar="JSON", help="The arguments by name, as a JSON object.")]
_EXAMPLE = "write --input '{\"name\": ...}'"


def read_input(definition: Definition, text: str) -> Call:
    """Decode the JSON object by the type hints of the definition."""
    from redrive.flows.values.named_arguments import call_by_names  # loaded here: `redrive --help` is quick

    try:
        data = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"--input is not valid JSON: {redact(str(error), 200)}; {_EXAMPLE}") from None
    if not isinstance(data, dict):
        raise BadInput(f"--input must be a JSON object, not {redact(text, 60)}; {_EXAMPLE}")
    from redrive.flows.graphs.graph import Graph
    from redrive.flows.scripts.script import Script, check_inputs

    if isinstance(definition.what, Graph):
        return (), data
    try:
        if isinstance(definition.what, Script):
            check_inputs(definition.what.function(definition.function), data)
            return (), data
        return call_by_names(definition.what.signature, data, "--input")
    except ValueError as error:
        raise BadInput(f"{definition.name}: {error}") from None
