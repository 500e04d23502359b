"""Select flows by the filters of their list, for listing them and for acting on many of them."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from redrive.client.app import App
from redrive.client.definition_names import full_name
from redrive.server.models import Name, RequestModel
from redrive.stores.records import FlowQuery, FlowStatus

LONGEST_KEY = 500


class FlowSelection(RequestModel, frozen=True):
    """Select the flows that match all fields."""

    status: list[FlowStatus] = msgspec.field(default_factory=list)
    """Repeatable."""
    definition: Name | None = None
    """Billing, or workflow:Billing, action:charge."""
    queue: Name | None = None
    key: Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)] | None = None


async def flow_query(app: App, selected: FlowSelection, among: Iterable[FlowStatus] = (), **page: Any) -> FlowQuery:
    """Return the query for these flows. among: only those with one of these statuses; page: `before` and `limit`."""
    wanted = selected.status
    return FlowQuery(
        status=tuple(one for one in among if not wanted or one in wanted) if among else tuple(wanted),
        definition=None if selected.definition is None else await full_name(app, selected.definition),
        queue=selected.queue,
        key=selected.key,
        **page,
    )
