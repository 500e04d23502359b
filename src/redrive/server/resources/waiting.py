"""What waits, where, and who works: retries, queues, workers."""

from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, Router, get, put
from msgspec import Meta

from redrive.client.app import LARGEST_LIMIT
from redrive.determinism.clock import current_clock
from redrive.explain.words import utc
from redrive.explain.worker_eligibility import workers_in
from redrive.server.operations import Answer, Ask, Limit, Name, Says, answer, opt
from redrive.server.problems import Refused
from redrive.server.reading import path_parameter, read_body, read_query
from redrive.server.served import app_of
from redrive.stores.queue_names import QUEUE_NAME, is_queue
from redrive.stores.records import QueueRecord, RetryQuery, RetryRow, RetryStatus
from redrive.stores.row_eligibility import attempts_of, eligibility_of, max_attempts_of


class RetryAnswer(Answer, frozen=True):
    """A work item that waits for its next attempt, or is in it."""

    flow_id: str
    item: int
    step: str
    queue: str
    status: RetryStatus
    attempts: int
    """Begun so far, the one under way included."""
    max_attempts: int | None
    """The first one included; null: no limit."""
    retryable: bool
    dependencies_satisfied: bool
    next_retry_at: datetime
    retry_eligible: bool
    """Whether it may be attempted once more at all."""
    ready: bool
    """Whether that may happen now."""
    reason: str
    """Why, in words."""
    backoff_kind: str
    backoff_base_delay_ms: float
    retry_kind: str
    """What triggered the retry: exception, timeout, lost, snooze, result, redrive."""
    timeout_at: datetime | None
    """When the attempt under way will have taken too long."""


class RetryList(Answer, frozen=True):
    retries: list[RetryAnswer]
    more: bool
    """True when there are more than were asked for."""


class RetryFilter(Ask, frozen=True):
    flow_id: Name | None = None
    queue: Name | None = None
    limit: Limit = 50


class QueueAnswer(Answer, frozen=True):
    name: str
    limit: int | None
    """How many of its flows may be worked on at once, in the whole fleet; null: any number."""
    ready: int
    waiting: int
    running: int


class QueueList(Answer, frozen=True):
    queues: list[QueueAnswer]


class QueueLimit(Ask, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=LARGEST_LIMIT)] | None
    """null: any number."""


class WorkerAnswer(Answer, frozen=True):
    name: str
    """Host and process."""
    definitions: list[str]
    queues: list[str] | None
    """null: all."""
    joined_at: datetime
    expires_at: datetime
    alive: bool
    flows: int
    """How many it has in its hands."""


class WorkerList(Answer, frozen=True):
    workers: list[WorkerAnswer]


class NoQuery(Ask, frozen=True):
    """An endpoint without parameters."""


def _retry(row: RetryRow, now: float) -> RetryAnswer:
    state = eligibility_of(row, now)
    return RetryAnswer(
        flow_id=row.flow_id,
        item=row.item,
        step=row.step,
        queue=row.queue,
        status=row.status,
        attempts=attempts_of(row),
        max_attempts=max_attempts_of(row),
        retryable=row.retryable,
        dependencies_satisfied=row.dependencies_satisfied,
        next_retry_at=utc(row.scheduled_at),
        retry_eligible=state.retry_eligible,
        ready=state.ready,
        reason=state.reason,
        backoff_kind=row.backoff_kind,
        backoff_base_delay_ms=row.backoff_base_delay_ms,
        retry_kind=row.retry_kind,
        timeout_at=None if row.timeout_at is None else utc(row.timeout_at),
    )


@get(
    "/v1/retries",
    opt=opt(
        summary="What waits for its next attempt, the next one first",
        tag="retries",
        role="read",
        query=RetryFilter,
        answers={200: Says(RetryList, "Work items, with whether and when they may be tried again.")},
    ),
)
async def retries(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, RetryFilter)
    query = RetryQuery(flow_id=wanted.flow_id, queue=wanted.queue, limit=wanted.limit + 1)
    found = await app_of(request).retries(query)
    now = current_clock().wall()
    shown = [_retry(row, now) for row in found[: wanted.limit]]
    return answer(RetryList(retries=shown, more=len(found) > len(shown)))


@get(
    "/v1/queues",
    opt=opt(
        summary="Queues, and how full they are",
        tag="queues",
        role="read",
        query=NoQuery,
        answers={200: Says(QueueList, "All queues.")},
    ),
)
async def queues(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    return answer(QueueList(queues=[_queue(one) for one in await app_of(request).queues()]))


@put(
    "/v1/queues/{queue:str}",
    opt=opt(
        summary="Limit how many flows of a queue are worked on at once",
        tag="queues",
        role="admin",
        description="The limit holds in the whole fleet.",
        body=QueueLimit,
        example={"limit": 10},
        answers={200: Says(QueueAnswer, "The queue, with its limit.")},
        errors=(422,),
    ),
)
async def limit(request: Request[Any, Any, Any]) -> Response[bytes]:
    queue = path_parameter(request, "queue")
    wanted = await read_body(request, QueueLimit)
    if not is_queue(queue):
        raise Refused(422, QUEUE_NAME, parameter="queue")
    app = app_of(request)
    await app.limit_queue(queue, wanted.limit)
    known = {one.name: one for one in await app.queues()}
    empty = QueueRecord(name=queue, limit=wanted.limit, ready=0, waiting=0, running=0)
    return answer(_queue(known.get(queue, empty)))


def _queue(record: QueueRecord) -> QueueAnswer:
    return QueueAnswer(
        name=record.name, limit=record.limit, ready=record.ready, waiting=record.waiting, running=record.running
    )


@get(
    "/v1/workers",
    opt=opt(
        summary="Workers",
        tag="workers",
        role="read",
        query=NoQuery,
        answers={200: Says(WorkerList, "Those that have a lease, or had one that ran out.")},
    ),
)
async def workers(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    found = await workers_in(app_of(request).store)
    shown = [
        WorkerAnswer(
            name=one.name,
            definitions=list(one.definitions),
            queues=None if one.queues is None else list(one.queues),
            joined_at=utc(one.joined_at),
            expires_at=utc(one.expires_at),
            alive=one.alive,
            flows=one.flows,
        )
        for one in found
    ]
    return answer(WorkerList(workers=shown))


router = Router("/", route_handlers=[retries, queues, limit, workers])
