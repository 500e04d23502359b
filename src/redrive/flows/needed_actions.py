"""Which actions a flow needs, as far as what it was started with says so."""

from redrive.errors import DeserializationError
from redrive.flows.driver import NOTHING_KNOWN
from redrive.flows.registry import GRAPH, SCRIPT


def needed_actions(definition: str, input: str) -> frozenset[str]:  # noqa: A002 - what a flow is started with
    """Of a graph and of a script all of them; of others nothing is known but their definition."""
    # Loaded here: many a store has neither.
    try:
        if definition.startswith(GRAPH):
            from redrive.flows.graph_driver import actions_of, read_graph_input

            return actions_of(read_graph_input(input).plan)
        if definition.startswith(SCRIPT):
            from redrive.flows.scripts.script import read_script_input

            return read_script_input(input, definition.removeprefix(SCRIPT))[0].actions
    except DeserializationError:
        pass
    return NOTHING_KNOWN
