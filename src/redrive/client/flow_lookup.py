"""Finds the flow that people mean: by its id, by the key it was started with, or by the first characters of its id."""

from collections.abc import Sequence

from redrive.client.app import App
from redrive.errors import AmbiguousFlowError, FlowNotFoundError
from redrive.flows.values.json_form import is_storable
from redrive.stores.records import FlowQuery, FlowRecord

MOST_NAMED = 5
"""How many flows a message names when several could be meant."""


async def find_flow(app: App, given: str) -> FlowRecord:
    """Return the flow with this id or key, or the only one whose id begins so.

    AmbiguousFlowError when several could be meant, FlowNotFoundError when none is.
    """
    if not given or not is_storable(given):
        raise FlowNotFoundError(given, app.store.address)
    found = await app.store.find_flow(given)
    if found is not None:
        return found
    with_key = await app.flows(FlowQuery(key=given, limit=MOST_NAMED + 1))
    if with_key:
        return _only(given, with_key, "is the key of several flows", "name the one you mean by its id")
    begins_so = await app.flows(FlowQuery(prefix=given.lower(), limit=MOST_NAMED + 1))
    if begins_so:
        return _only(given, begins_so, "matches the ids of several flows", "give more characters")
    raise FlowNotFoundError(given, app.store.address)


def _only(given: str, found: Sequence[FlowRecord], problem: str, instead: str) -> FlowRecord:
    if len(found) == 1:
        return found[0]
    named = "; ".join(f"{flow.id} ({flow.definition}, {flow.status})" for flow in found[:MOST_NAMED])
    more = "; and more" if len(found) > MOST_NAMED else ""
    raise AmbiguousFlowError(given, f"{given!r} {problem}: {named}{more}; {instead}")
