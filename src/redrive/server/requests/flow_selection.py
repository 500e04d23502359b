"""Which flows a request is about: the filters of the list, shared by all that select flows."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from redrive.client.app import App
from redrive.client.batches import LONGEST_NAME
from redrive.client.definition_names import full_name
from redrive.flows.tags import LONGEST_TAG, MOST_TAGS, TAG_NAME
from redrive.flows.waits import WaitsFor
from redrive.server.access.api_keys import Caller
from redrive.server.contract.models import NO_CONTROL_CHARACTERS, Name, RequestModel
from redrive.stores.records import FlowQuery, FlowStatus

LONGEST_KEY = 500
TAG = rf"^{TAG_NAME}=[^\x00]{{1,{LONGEST_TAG}}}$(?!\n)"
Moment = Annotated[datetime, Meta(tz=True)]


class FlowSelection(RequestModel, frozen=True):
    """Select the flows that match all fields."""

    status: list[FlowStatus] = msgspec.field(default_factory=list)
    """Repeatable."""
    definition: Name | None = None
    """Billing, or workflow:Billing, action:charge."""
    queue: Name | None = None
    key: Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)] | None = None
    parent: Name | None = None
    """Only the children of this flow, by its id."""
    batch: Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=NO_CONTROL_CHARACTERS)] | None = None
    tag: Annotated[list[Annotated[str, Meta(pattern=TAG)]], Meta(max_length=MOST_TAGS)] = msgspec.field(
        default_factory=list
    )
    """tenant=acme. Repeatable: the flows have all of them."""
    retrying: bool = False
    """Only flows with a step that waits for another attempt, or is in it."""
    waits_for: WaitsFor | None = None
    """Only flows with a step that waits for this."""
    dependency: Name | None = None
    """Only flows with a step, in the retry queue or dead, that talks to it."""
    error: Name | None = None
    """Only flows with a step, in the retry queue or dead, whose last failure has this type."""
    text: Annotated[str, Meta(min_length=1, max_length=200, pattern=NO_CONTROL_CHARACTERS)] | None = None
    """How their ids begin, or a part of their key or definition, in any case; with the role read:payload, also a part
    of the message of their dead letter."""
    created_after: Moment | None = None
    created_before: Moment | None = None


async def flow_query(
    app: App,
    wanted: FlowSelection,
    caller: Caller,
    among: Iterable[FlowStatus] = (),
    *,
    before: str | None = None,
    limit: int,
) -> FlowQuery:
    """Return the query for a caller: the text of messages can only be searched by those who may see it.

    among: only flows with one of these statuses.
    """
    listed = wanted.status
    status: tuple[FlowStatus, ...] = tuple(listed)
    if among:
        status = tuple(one for one in among if not listed or one in listed)
    after, until = wanted.created_after, wanted.created_before
    return FlowQuery(
        status=status,
        definition=None if wanted.definition is None else await full_name(app, wanted.definition),
        queue=wanted.queue,
        key=wanted.key,
        parent=wanted.parent,
        batch=wanted.batch,
        tags=dict(_tag(one) for one in wanted.tag),
        retrying=wanted.retrying,
        waits_for=wanted.waits_for,
        dependency=wanted.dependency,
        error_type=wanted.error,
        text=wanted.text,
        in_messages=caller.sees_payloads,
        created_after=None if after is None else after.timestamp(),
        created_before=None if until is None else until.timestamp(),
        before=before,
        limit=limit,
    )


def _tag(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
