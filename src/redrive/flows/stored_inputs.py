"""What the stored input of a flow says, whatever its definition."""

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.driver import NO_ACTIONS
from redrive.flows.graphs.stored_graph import plan_actions, read_graph_input
from redrive.flows.job import read_job
from redrive.flows.registry import ACTION, GRAPH, SCRIPT


def required_actions(definition: str, input: str) -> frozenset[str]:  # noqa: A002 - as the record calls it
    """The actions that a flow of a graph or a script may need; empty for other definitions, which do not say."""
    try:
        if definition.startswith(GRAPH):
            return plan_actions(read_graph_input(input).plan)
        if definition.startswith(SCRIPT):
            # Loaded here: most stores have no scripts, and their parser takes time to load.
            from redrive.flows.scripts.script import read_script_input

            return read_script_input(input, definition.removeprefix(SCRIPT))[0].actions
    except DeserializationError:
        pass
    return NO_ACTIONS


def start_arguments(definition: str, input: str) -> str:  # noqa: A002 - as the record calls it
    """The arguments that the flow was started with, as JSON; the whole input where it cannot be read.

    The policy of a job, the plan of a graph and the text of a script are left out.
    """
    try:
        if definition.startswith(ACTION):
            return bytes(read_job(input).args).decode()
        if definition.startswith(GRAPH):
            return msgspec.json.encode(read_graph_input(input).inputs).decode()
        if definition.startswith(SCRIPT):
            from redrive.flows.scripts.script import read_stored  # loaded here, as above

            return msgspec.json.encode(read_stored(input).inputs).decode()
    except DeserializationError:
        pass
    return input
