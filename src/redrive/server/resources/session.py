"""Sign-in of the dashboard: an API key begins a session, whose cookie scripts cannot read."""

import logging
import math
from typing import Annotated, Any

from litestar import Request, Response, Router, delete, get, post
from msgspec import Meta

import redrive
from redrive.server.access.api_keys import Caller, Role
from redrive.server.access.authentication import check_own_page, known_caller
from redrive.server.access.sessions import cookie_name
from redrive.server.context import client_of, context_of
from redrive.server.contract.models import NoQuery, RequestModel, ResponseModel, json_response
from redrive.server.contract.operations import ResponseSpec, operation
from redrive.server.contract.problems import ProblemError
from redrive.server.requests.parsing import read_body, read_query

log = logging.getLogger("redrive.server")
TAG = "session"


class SessionResponse(ResponseModel, frozen=True):
    signed_in: bool
    """Whether requests like this one are accepted: with a session, a key, or on a machine where none is needed."""
    role: Role | None
    name: str
    """The name of the API key; empty where none is needed."""
    payloads: bool
    """Whether payloads are shown."""
    limited: bool
    """Whether the key is limited to queues or definitions."""
    version: str
    store: str | None
    """The address of the store, without its password; null unless signed in."""
    keys_required: bool
    read_only: bool
    """Whether nobody may change anything here, whatever their role."""


class SignIn(RequestModel, frozen=True):
    key: Annotated[str, Meta(min_length=1, max_length=200)]
    """An API key."""


@get(
    "/",
    opt=operation(
        summary="Who is asking, and what may they do?",
        tag=TAG,
        role=None,
        query=NoQuery,
        responses={200: ResponseSpec(SessionResponse, "The session; `signed_in` is false if there is none.")},
        errors=(403,),
    ),
)
async def show(request: Request[Any, Any, Any]) -> Response[bytes]:
    read_query(request, NoQuery)
    return json_response(await _described(request, known_caller(request.scope)))


@post(
    "/",
    status_code=200,
    opt=operation(
        summary="Sign in: begin a session of the dashboard",
        tag=TAG,
        role=None,
        changes_nothing=True,
        description="The cookie that the response sets is accepted instead of the key, for 12 hours or until the key "
        "is revoked or expires. With it, requests other than GET need the header `X-Redrive-Request: 1`.",
        body=SignIn,
        example={"key": "rdk_3f1c0a9b8d7e_..."},
        responses={200: ResponseSpec(SessionResponse, "The session has begun.", headers=("Set-Cookie",))},
        errors=(401, 403, 409),
    ),
)
async def sign_in(request: Request[Any, Any, Any]) -> Response[bytes]:
    check_own_page(request.headers)
    context = context_of(request)
    given = await read_body(request, SignIn)
    if not await context.keys.are_required():
        raise ProblemError(409, "this server has no API keys, so there is nothing to sign in to")
    caller = await context.keys.caller(given.key.strip())
    if caller is None:
        # A right key is accepted however many wrong ones came from the same address: nobody can be locked out.
        if wait := context.failed_sign_ins.acquire(client_of(request.scope)):
            detail = "too many failed sign-ins; wait a moment"
            raise ProblemError(429, detail, headers={"Retry-After": str(math.ceil(wait))})
        client = request.scope.get("client")
        log.warning("a sign-in from %s was refused: the key is not valid", client[0] if client else "unknown")
        detail = "this API key is unknown, has expired or has been revoked"
        raise ProblemError(401, detail, pointer="/key", headers={"WWW-Authenticate": "Bearer"})
    cookie = _cookie(request, context.sessions.begin(caller), math.ceil(context.settings.session_lifetime))
    return json_response(await _described(request, caller), headers={"Set-Cookie": cookie})


@delete(
    "/",
    status_code=204,
    opt=operation(
        summary="Sign out: end the session",
        tag=TAG,
        role=None,
        changes_nothing=True,
        responses={204: ResponseSpec(None, "There is no session any more.", headers=("Set-Cookie",))},
        errors=(403,),
    ),
)
async def sign_out(request: Request[Any, Any, Any]) -> Response[None]:
    caller = known_caller(request.scope)
    if caller is not None:
        context_of(request).sessions.end(caller)
    return Response(None, status_code=204, headers={"Set-Cookie": _cookie(request, "", 0)})


async def _described(request: Request[Any, Any, Any], caller: Caller | None) -> SessionResponse:
    context = context_of(request)
    return SessionResponse(
        signed_in=caller is not None,
        role=None if caller is None else caller.role,
        name="" if caller is None else caller.name,
        payloads=caller is not None and caller.sees_payloads,
        limited=caller is not None and caller.is_limited,
        version=redrive.__version__,
        store=None if caller is None else context.app.store.address,
        keys_required=await context.keys.are_required(),
        read_only=context.read_only,
    )


def _cookie(request: Request[Any, Any, Any], value: str, seconds: int) -> str:
    parts = [f"{cookie_name(request.scope)}={value}", "Path=/", "HttpOnly", "SameSite=Strict", f"Max-Age={seconds}"]
    # A proxy in front that speaks TLS says so; whoever else says it only loses their own cookie.
    if "https" in (request.scope["scheme"], request.headers.get("x-forwarded-proto")):
        parts.append("Secure")
    return "; ".join(parts)


router = Router("/v1/session", route_handlers=[show, sign_in, sign_out])
