"""The retry queue: work items that wait for their next attempt, or are in it."""

from datetime import datetime
from typing import Any

from litestar import Request, Response, Router, get

from redrive.determinism.clock import current_clock
from redrive.flows.waits import WaitsFor
from redrive.server.access.authentication import caller_of
from redrive.server.context import app_of
from redrive.server.contract.models import Limit, Name, RequestModel, ResponseModel, json_response, response_of
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.requests.parsing import read_query
from redrive.server.settings import LARGEST_PAGE
from redrive.stores.records import RetryQuery, RetryRow, RetryStatus
from redrive.stores.row_eligibility import eligibility_of


class RetryResponse(ResponseModel, frozen=True):
    """A row of the retry queue, as `app.retries()` returns it, without the delivery token."""

    # Whoever has the token may complete the attempt; reading is not enough for that.
    flow_id: str
    item: int
    step: str
    queue: str
    status: RetryStatus
    attempt_number: int
    """Counts from 0, so that 1 is the first retry: the attempt that waits or is running."""
    max_retries: int | None
    """null: no limit."""
    timeout_seconds: float | None
    timeout_retry_limit: int | None
    """Retries left for attempts that time out; null: no separate limit."""
    backoff_kind: str
    backoff_base_delay_ms: float
    retry_kind: str
    """What triggered the retry: exception, timeout, lost, snooze, result, redrive; deferred (by its dependency)."""
    scheduled_at: datetime
    """When the attempt may begin."""
    timeout_at: datetime | None
    """When the running attempt times out."""
    retryable: bool
    """Whether the work item may be retried after its first attempt."""
    dependencies_satisfied: bool
    """Whether the outputs that the work item needs are there."""
    definition: str
    dependency: str
    """What the step talks to; empty for nothing that has a name."""
    waits_for: WaitsFor
    """backoff, retry_after, circuit, recovery, budget, limit, snooze, redrive; empty while the attempt runs."""
    error_type: str
    """Of the last failure; empty before the first."""
    since: datetime | None
    """When it began to wait, or when its attempt began."""
    retry_eligible: bool
    """Whether the work item may be attempted again at all."""
    ready: bool
    """Whether it may be attempted now."""
    reason: str
    """Why, in words."""


class RetryList(ResponseModel, frozen=True):
    retries: list[RetryResponse]
    more: bool
    """True if there are more than `limit`; with a limited key, also if there may be more."""


class RetryFilter(RequestModel, frozen=True):
    flow_id: Name | None = None
    queue: Name | None = None
    limit: Limit = 50


@get(
    "/",
    opt=operation(
        summary="List the retry queue, the next attempt first",
        live=True,
        tag="retries",
        role="read",
        within_limits=True,
        query=RetryFilter,
        responses={200: ResponseSpec(RetryList, "Work items, and whether and when they may be attempted again.")},
    ),
)
async def retries(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, RetryFilter)
    caller = caller_of(request.scope)
    limit = LARGEST_PAGE if caller.is_limited else wanted.limit
    rows = found = await app_of(request).retries(
        RetryQuery(flow_id=wanted.flow_id, queue=wanted.queue, limit=limit + 1)
    )
    if caller.is_limited:
        records = await app_of(request).store.find_flows(list({row.flow_id for row in found}))
        allowed = {one.id for one in records.values() if caller.may_use(one.queue, one.definition)}
        found = [row for row in found if row.flow_id in allowed]
    now = current_clock().wall()
    shown = [_retry(row, now) for row in found[: wanted.limit]]
    return json_response(RetryList(retries=shown, more=len(found) > len(shown) or len(rows) > limit))


def _retry(row: RetryRow, now: float) -> RetryResponse:
    state = eligibility_of(row, now)
    return response_of(RetryResponse, row, retry_eligible=state.retry_eligible, ready=state.ready, reason=state.reason)


router = Router("/v1/retries", route_handlers=[retries])
