"""Pick the driver that runs a flow's definition."""

from redrive.flows.driver import Driver
from redrive.flows.graphs.driver import GraphDriver
from redrive.flows.job import JobDriver
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW
from redrive.flows.workflows.driver import workflow_driver
from redrive.flows.workflows.workflow import workflow_named


def driver_for(
    definition: str,
    flow_id: str,
    input: str,  # noqa: A002 - as the record calls it
    run_from: int = 0,
) -> Driver:
    """A driver for the flow; raises UnknownDefinitionError when this process has no such definition."""
    if definition.startswith(WORKFLOW):
        # Another run draws other numbers.
        seed = f"{flow_id}/{run_from}" if run_from else flow_id
        return workflow_driver(workflow_named(definition.removeprefix(WORKFLOW)), flow_id, input, seed)
    if definition.startswith(GRAPH):
        return GraphDriver(input)
    if definition.startswith(SCRIPT):
        # Loaded here: most workers run no scripts, and their parser takes time to load.
        from redrive.flows.script_driver import script_driver

        return script_driver(definition.removeprefix(SCRIPT), flow_id, input)
    return JobDriver(definition.removeprefix(ACTION), input)
