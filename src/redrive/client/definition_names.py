"""The names of definitions: as people say them, and as flows have them."""

from typing import TYPE_CHECKING

from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW
from redrive.stores.records import FlowQuery

if TYPE_CHECKING:
    from redrive.client.app import App


async def full_name(app: "App", name: str) -> str:
    """The name as flows have it, with its kind in front: of the kinds that it could be, the first that has flows."""
    if ":" in name:
        return name
    for kind in (WORKFLOW, GRAPH, SCRIPT):
        if await app.flows(FlowQuery(definition=kind + name, limit=1)):
            return kind + name
    return ACTION + name
