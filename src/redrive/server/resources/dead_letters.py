"""What failed for good: look at it, put it back to work, or settle it."""

import contextlib
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from msgspec import Meta

from redrive.client.app import App
from redrive.client.dead_letters import close_in_parts
from redrive.client.definition_names import full_name
from redrive.flows.flow_end import DeadKind
from redrive.formatting.times import utc_datetime
from redrive.server.operations import Answer, Ask, Cursor, Limit, Name, Says, Verdict, answer, by, opt
from redrive.server.paging import cursor_after, no_cursor, read_cursor
from redrive.server.problems import Refused
from redrive.server.reading import path_parameter, read_body, read_query
from redrive.server.served import app_of
from redrive.stores.records import DeadLetter, DeadQuery, DeadState

TAG = "dead letters"
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
MOST_SETTLED = 10_000
"""In one request; whoever has more asks again."""


class DeadLetterAnswer(Answer, frozen=True):
    """A flow that failed for good."""

    flow_id: str
    definition: str
    queue: str
    at: datetime
    kind: str
    """Why: exhausted, permanent, poison, workflow, ..."""
    step: str
    """The step that failed; empty where the flow's own code did."""
    attempts: int
    error_type: str
    message: str
    payload: str
    """A summary of what it was started with, bounded and without secrets."""
    state: DeadState
    by: str | None
    why: str | None
    closed_at: datetime | None


class DeadLetterPage(Answer, frozen=True):
    dead_letters: list[DeadLetterAnswer]
    next: str | None
    """The cursor of the next page; null on the last one."""


class Chosen(Ask, frozen=True):
    """Those that are all of this; empty: all."""

    definition: Name | None = None
    """Billing, or workflow:Billing, action:charge."""
    step: Name | None = None
    kind: DeadKind | None = None
    error_type: Name | None = None
    queue: Name | None = None


class DeadLetterFilter(Chosen, frozen=True):
    state: DeadState = "dead"
    cursor: Cursor | None = None
    limit: Limit = 50


class Settle(Verdict, frozen=True):
    """Which ones: exactly one of flows, filter and all."""

    flows: Annotated[list[Name], Meta(min_length=1, max_length=MOST_SETTLED)] | msgspec.UnsetType = msgspec.UNSET
    filter: Chosen | msgspec.UnsetType = msgspec.UNSET
    all: bool = False


class Settled(Answer, frozen=True):
    settled: list[str]
    """The flows that were dead until now."""
    more: bool
    """True when there are more than are settled in one request: ask again."""


def _view(letter: DeadLetter) -> DeadLetterAnswer:
    fields = msgspec.structs.asdict(letter)
    closed_at = None if letter.closed_at is None else utc_datetime(letter.closed_at)
    return DeadLetterAnswer(**fields | {"at": utc_datetime(letter.at), "closed_at": closed_at})


@get(
    "/",
    opt=opt(
        summary="List dead letters, oldest first",
        tag=TAG,
        role="read",
        query=DeadLetterFilter,
        answers={200: Says(DeadLetterPage, "A page of dead letters.")},
        errors=(422,),
    ),
)
async def list_letters(request: Request[Any, Any, Any]) -> Response[bytes]:
    wanted = read_query(request, DeadLetterFilter)
    after = _read_place(read_cursor(wanted.cursor))
    app = app_of(request)
    query = await _query(app, wanted, state=wanted.state, after=after, limit=wanted.limit + 1)
    found = await app.dead_letters(query)
    shown = found[: wanted.limit]
    following = cursor_after(_written_place(shown[-1])) if len(found) > len(shown) else None
    return answer(DeadLetterPage(dead_letters=[_view(one) for one in shown], next=following))


def _written_place(letter: DeadLetter) -> str:
    return f"{letter.at!r} {letter.flow_id}"


def _read_place(text: str | None) -> tuple[float, str] | None:
    if text is None:
        return None
    at, _, flow_id = text.partition(" ")
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(at)) < _LATEST:
            return seconds, flow_id
    raise no_cursor()


@get(
    "/{flow_id:str}",
    opt=opt(
        summary="Look at a dead letter",
        tag=TAG,
        role="read",
        answers={200: Says(DeadLetterAnswer, "The dead letter, settled or not.")},
        errors=(404,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    flow_id = path_parameter(request, "flow_id")
    return answer(_view(await _letter(app_of(request), flow_id)))


async def _letter(app: App, flow_id: str) -> DeadLetter:
    found = await app.dead_letters(DeadQuery(flow_ids=(flow_id,), state=None, limit=1))
    if not found:
        raise Refused(404, f"no dead letter has the flow id {flow_id}", parameter="flow_id")
    return found[0]


async def _query(app: App, chosen: Chosen, **more: Any) -> DeadQuery:
    filters = {name: getattr(chosen, name) for name in Chosen.__struct_fields__}
    if chosen.definition is not None:
        filters["definition"] = await full_name(app, chosen.definition)
    return DeadQuery(**filters, **more)


def _settle_one(verb: str, summary: str) -> Any:
    async def settle(request: Request[Any, Any, Any]) -> Response[bytes]:
        flow_id = path_parameter(request, "flow_id")
        said = await read_body(request, Verdict)
        app = app_of(request)
        letter = await _letter(app, flow_id)
        if not await _verb(app, verb)([flow_id], by=by(request, said.by), why=said.why):
            known = (await _letter(app, flow_id)) if letter.state == "dead" else letter
            raise Refused(409, f"flow {flow_id} is no longer dead: it was {known.state} by {known.by}")
        return answer(_view(await _letter(app, flow_id)))

    about = opt(
        summary=summary,
        tag=TAG,
        role="operate",
        body=Verdict,
        example={"why": "the bank is back", "by": "anna"},
        answers={200: Says(DeadLetterAnswer, "It is settled so.")},
        errors=(404, 409),
    )
    return post(f"/{{flow_id:str}}/{verb}", name=f"{verb}_one", opt=about, status_code=200)(settle)


def _settle_many(verb: str, summary: str) -> Any:
    async def settle_many(request: Request[Any, Any, Any]) -> Response[bytes]:
        wanted = await read_body(request, Settle)
        app = app_of(request)
        chosen, more = await _chosen(app, wanted)
        who = by(request, wanted.by)
        settled = await close_in_parts(_verb(app, verb), chosen, by=who, why=wanted.why)
        return answer(Settled(settled=settled, more=more))

    about = opt(
        summary=summary,
        tag=TAG,
        role="operate",
        description=f"By their flows, by a filter, or all; at most {MOST_SETTLED:,} in one request.",
        body=Settle,
        example={"filter": {"step": "charge"}, "why": "the bank is back", "by": "anna"},
        answers={200: Says(Settled, "Those that were dead until now.")},
        errors=(422,),
    )
    return post(f"/{verb}", name=f"{verb}_many", opt=about, status_code=200)(settle_many)


def _verb(app: App, verb: str) -> Any:
    return app.redrive if verb == "redrive" else app.discard


async def _chosen(app: App, wanted: Settle) -> tuple[list[str], bool]:
    """The flows, and whether there are more."""
    by_flows, by_filter = isinstance(wanted.flows, list), isinstance(wanted.filter, Chosen)
    if [by_flows, by_filter, wanted.all].count(True) != 1:
        raise Refused(422, 'which ones? give exactly one of flows, filter and "all": true')
    if wanted.filter == Chosen():
        raise Refused(422, 'the filter is empty; for all of them say "all": true', pointer="/filter")
    if isinstance(wanted.flows, list):
        return list(dict.fromkeys(wanted.flows)), False
    query = await _query(app, wanted.filter if isinstance(wanted.filter, Chosen) else Chosen(), limit=1000)
    # By flow: one that dies again meanwhile comes twice.
    chosen: dict[str, None] = {}
    while len(chosen) < MOST_SETTLED and (page := await app.dead_letters(query)):
        chosen |= dict.fromkeys(letter.flow_id for letter in page)
        query = msgspec.structs.replace(query, after=page[-1].cursor)
    return list(chosen)[:MOST_SETTLED], len(chosen) >= MOST_SETTLED


router = Router(
    "/v1/dead-letters",
    route_handlers=[
        list_letters,
        show,
        _settle_one("redrive", "Put a dead flow back to work, at the step that failed"),
        _settle_one("discard", "Settle a dead flow for good: it stays failed"),
        _settle_many("redrive", "Put dead flows back to work, each at the step that failed"),
        _settle_many("discard", "Settle dead flows for good: they stay failed"),
    ],
)
