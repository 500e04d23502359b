"""What all endpoints share: the app, the settings, the API keys, the open event streams."""

from typing import Any

from litestar import Request

from redrive.client.app import App
from redrive.server.api_keys import ApiKeys
from redrive.server.event_streams import EventStreams
from redrive.server.settings import ServerSettings


class ServerContext:
    def __init__(self, app: App, settings: ServerSettings) -> None:
        self.app = app
        self.settings = settings
        self.keys = ApiKeys(app.store, settings.key_cache)
        self.streams = EventStreams(settings, self.keys)


def context_of(request: Request[Any, Any, Any]) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


def app_of(request: Request[Any, Any, Any]) -> App:
    return context_of(request).app
