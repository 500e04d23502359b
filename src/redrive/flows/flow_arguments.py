"""What someone gave a flow when it was started, of all that it is kept with."""

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.graph_driver import read_graph_input
from redrive.flows.job import read_job
from redrive.flows.registry import ACTION, GRAPH, SCRIPT


def arguments_of(definition: str, input: str) -> str:  # noqa: A002 - what a flow is started with
    """As JSON. Without the policy of a job, the plan of a graph, the text of a script; all of it where it is unread."""
    try:
        if definition.startswith(ACTION):
            return bytes(read_job(input).args).decode()
        if definition.startswith(GRAPH):
            return msgspec.json.encode(read_graph_input(input).inputs).decode()
        if definition.startswith(SCRIPT):
            # Loaded here: many a store has no scripts.
            from redrive.flows.scripts.script import read_stored

            return msgspec.json.encode(read_stored(input).inputs).decode()
    except DeserializationError:
        pass
    return input
