"""The state that all endpoints share: the app, the settings, the API keys, the open event streams."""

from typing import Any

from litestar import Request

from redrive.client.app import App
from redrive.errors import FlowNotFoundError
from redrive.server.access.api_keys import ApiKeys
from redrive.server.access.authentication import caller_of
from redrive.server.access.sessions import Sessions
from redrive.server.requests.large_inputs import LargeInputs
from redrive.server.settings import ServerSettings
from redrive.server.streams.flow_events import EventStreams
from redrive.server.streams.live_views import LiveViews
from redrive.server.streams.places import StreamPlaces
from redrive.server.transport.body_budget import BodyClaim
from redrive.server.transport.rate_limit import RateLimiter
from redrive.stores.records import FlowRecord

CLIENT = "redrive.client"
"""The key of the ASGI scope under which the middleware stores the client: the API key or address to limit."""
BODY_CLAIM = "redrive.body_claim"
"""The key of the ASGI scope under which the middleware stores the request's claim to the body budget."""


class ServerContext:
    def __init__(self, app: App, settings: ServerSettings, *, read_only: bool = False) -> None:
        self.app = app
        self.read_only = read_only
        """Whether nobody may change anything, whatever their role."""
        self.settings = settings
        self.keys = ApiKeys(app.store, settings.key_cache)
        self.sessions = Sessions(self.keys, settings.session_lifetime)
        self.failed_sign_ins = RateLimiter(settings.failed_sign_ins / 60, settings.failed_sign_ins)
        self.stream_places = StreamPlaces(settings)
        self.streams = EventStreams(settings, self.stream_places, self.sessions.still_valid)
        self.live_views = LiveViews(app.store, settings, self.stream_places, self.sessions.still_valid)
        self.large_inputs = LargeInputs()


def context_of(request: Request[Any, Any, Any]) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


async def visible_flow(request: Request[Any, Any, Any], flow_id: str) -> FlowRecord:
    """Return the flow; FlowNotFoundError if there is none, or none within the limits of the caller's key."""
    app = app_of(request)
    record = await app.find(flow_id)
    if not caller_of(request.scope).may_use(record.queue, record.definition):
        raise FlowNotFoundError(flow_id, app.store.address)
    return record


def app_of(request: Request[Any, Any, Any]) -> App:
    return context_of(request).app


def client_of(scope: Any) -> str:
    """Return the client to which per-client limits apply: an API key, or an address."""
    client: str = scope[CLIENT]
    return client


def body_claim_of(scope: Any) -> BodyClaim:
    claim: BodyClaim = scope[BODY_CLAIM]
    return claim
