"""A real server on a free port, in a thread of its own, and a client for it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

import redrive
from redrive.client.app import App
from redrive.runners.http.settings import HttpSettings
from redrive.server.access.api_keys import Role, new_key
from redrive.server.api import Api
from redrive.server.http_server import HttpServer, bind, url_of, wait_until_started
from redrive.server.settings import ServerSettings
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED

T = TypeVar("T")
PATIENCE = 20.0
NO_FLOW = "00000000-0000-7000-8000-000000000000"


class Serving:
    def __init__(self, store: Store | str, settings: ServerSettings, on_loopback: bool, worker: bool) -> None:
        self._store = store
        self._settings = settings
        self._on_loopback = on_loopback
        self._worker = worker
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self.app: App
        self.api: Api
        self.url = ""
        self.client: httpx.Client
        self._loop: asyncio.AbstractEventLoop
        self._server: HttpServer

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        with bind("127.0.0.1", 0) as bound:
            self.url = url_of(bound)
            http = HttpSettings(allow=("127.0.0.1",), callback_base=self.url)
            async with redrive.open(self._store, worker=self._worker, http=http) as self.app:
                self.api = Api(self.app, self._settings, on_loopback=self._on_loopback)
                self._server = HttpServer(self.api)
                serving = asyncio.create_task(self._server.serve(sockets=[bound]))
                assert await wait_until_started(self._server, serving)
                self._ready.set()
                await serving

    def begin(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._server.stop)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    @property
    def open_connections(self) -> int:
        return self._server.open_connections

    def connect(self, sent: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
        """A bare connection, on which `sent` has been sent."""
        host, _, port = self.url.removeprefix("http://").partition(":")
        raw = socket.create_connection((host, int(port)), timeout=PATIENCE, source_address=(source, 0))
        raw.sendall(sent)
        return raw

    def ask(self, question: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        """Have the app answer, in its own loop."""
        return asyncio.run_coroutine_threadsafe(question(self.app), self._loop).result(PATIENCE)

    def key(self, role: Role, name: str = "ci", **limits: Any) -> str:
        """A new API key of the store."""
        row, key = new_key(name, role, time.time(), **limits)
        self.ask(lambda app: app.store.add_key(row))
        return key

    def start(self, definition: str, inputs: Any = None, **more: Any) -> str:
        """The id of a new flow of `workflow:NAME` or `action:NAME`."""
        kind, _, name = definition.partition(":")
        answer = self.client.post("/v1/flows", json={kind: name, "inputs": inputs or {}, **more})
        assert answer.status_code == 201, answer.text
        flow_id: str = answer.json()["id"]
        return flow_id

    def finished(self, flow_id: str) -> Any:
        """The flow, once it has ended."""
        return self.until(lambda: self.flow(flow_id), lambda flow: flow["status"] in FINISHED)

    def flow(self, flow_id: str) -> Any:
        return self.client.get(f"/v1/flows/{flow_id}").json()

    def until(self, look: Callable[[], Any], good: Callable[[Any], bool]) -> Any:
        limit = time.monotonic() + PATIENCE
        while not good(found := look()):
            assert time.monotonic() < limit, found
            time.sleep(0.01)
        return found


@contextmanager
def serving(
    store: Store | str = "memory://", *, on_loopback: bool = True, worker: bool = True, **settings: Any
) -> Iterator[Serving]:
    settings = {"poll": 0.01, "key_cache": 0.0, **settings}
    server = Serving(store, ServerSettings(**settings), on_loopback, worker)
    server.begin()
    try:
        yield server
    finally:
        server.client.close()
        server.stop()


def received(raw: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    found = b""
    with raw:
        try:
            while piece := raw.recv(65536):
                found += piece
        except ConnectionResetError:
            pass
    return found


def problem(answer: httpx.Response, status: int) -> Any:
    """The problem that the answer is."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert said["status"] == status
    assert said["type"].startswith("urn:redrive:")
    assert said["title"]
    assert said["detail"]
    assert "Traceback" not in answer.text
    return said
