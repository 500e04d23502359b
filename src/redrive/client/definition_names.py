"""Resolves the names of definitions as people write them: "Checkout" is "workflow:Checkout"."""

from redrive.client.app import App
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW
from redrive.stores.records import FlowQuery


async def full_name(app: App, name: str) -> str:
    """Return the name with its kind in front: the first kind that has flows of that name."""
    if ":" in name:
        return name
    for kind in (WORKFLOW, GRAPH, SCRIPT):
        if await app.flows(FlowQuery(definition=kind + name, limit=1)):
            return kind + name
    return ACTION + name
