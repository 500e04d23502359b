"""What the endpoints share: the app, the settings, the keys, the open streams."""

from typing import Any

from litestar import Request

from redrive.client.app import App
from redrive.server.keys import KeyRing
from redrive.server.settings import ServerSettings
from redrive.server.streams import Streams


class Served:
    def __init__(self, app: App, settings: ServerSettings) -> None:
        self.app = app
        self.settings = settings
        self.keys = KeyRing(app.store, settings.keys_for)
        self.streams = Streams(settings, self.keys)


def served(request: Request[Any, Any, Any]) -> Served:
    found: Served = request.app.state.served
    return found


def app_of(request: Request[Any, Any, Any]) -> App:
    return served(request).app
