"""Adapters say who retries, if asked to; applications behind the middlewares listen."""

import asyncio
from collections.abc import Iterable
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

import redrive
from redrive.integrations import asgi, fastapi, wsgi
from redrive.integrations.ownership import inherit_ownership
from redrive.testing import FlakyServer, Reply

from .clients import Client

QUICK: dict[str, Any] = {"attempts": 3, "backoff": 0, "jitter": "none", "floor": 0}


@pytest.mark.promise("L4")
def test_every_attempt_of_a_request_says_its_number_and_the_time_left(client: Client) -> None:
    settings = {"ownership_headers": True, "deadline": 30, "attempt_timeout": 20, **QUICK}
    with FlakyServer(503, 503, then=200) as server:
        assert client.send("GET", server.url, settings=settings).status == 200
    assert [seen.headers["redrive-attempt"] for seen in server.seen] == ["1", "2", "3"]
    assert all(10 < float(seen.headers["redrive-deadline"]) <= 20 for seen in server.seen)


def test_nothing_is_said_unless_asked_for(client: Client) -> None:
    with FlakyServer(503, then=200) as server:
        client.send("GET", server.url, settings=QUICK)
    assert not [name for seen in server.seen for name in seen.headers if name.startswith("redrive")]


def test_a_request_inside_a_guarded_call_speaks_for_that_call(client: Client) -> None:
    settings = {"ownership_headers": True, "deadline": None, **QUICK}
    with FlakyServer(503, then=200) as server:
        guard = redrive.Retrier(**QUICK, deadline=None)
        guard.call(client.send, "GET", server.url, settings=settings)
    # A client that runs a loop of its own inherits the context of the call.
    assert [seen.headers.get("redrive-attempt") for seen in server.seen] == ["1", "2"]
    assert all("redrive-deadline" not in seen.headers for seen in server.seen)


def test_the_adapters_own_timeout_is_sent_where_it_is_shorter(client: Client) -> None:
    settings = {"ownership_headers": True, "attempt_timeout": 5, **QUICK}
    with FlakyServer() as server:
        redrive.Retrier(**QUICK, deadline=60).call(client.send, "GET", server.url, settings=settings)
    assert 4 < float(server.seen[0].headers["redrive-deadline"]) <= 5


@pytest.mark.promise("L4")
@pytest.mark.parametrize("headers", [{}, {"Redrive-Attempt": "1"}, {"Redrive-Attempt": "2", "Redrive-Deadline": "60"}])
def test_a_caller_cannot_switch_off_how_a_handler_treats_a_response(client: Client, headers: dict[str, str]) -> None:
    """Nothing in this process catches an error for the caller: the handler gets the response that it expects."""
    with FlakyServer(then=Reply(status=503, headers={"Retry-After": "0"})) as server, inherit_ownership(headers):
        answer = client.send("GET", server.url, settings=QUICK)
    assert answer.status == 503
    assert len(server.seen) == (1 if headers else 3)
    assert answer.report is not None
    assert answer.report.made == len(server.seen)
    assert answer.report.gave_up.kind == ("nested" if headers else "exhausted")


@pytest.mark.promise("L4")
@pytest.mark.parametrize("headers", [{}, {"Redrive-Attempt": "1"}, {"Redrive-Attempt": "1", "Redrive-Deadline": "60"}])
def test_a_guarded_call_of_the_handler_sees_the_failure_all_the_same(client: Client, headers: dict[str, str]) -> None:
    with FlakyServer(then=503) as server, inherit_ownership(headers), pytest.raises(client.status_error) as caught:
        redrive.Retrier(**QUICK, operation="handler").call(client.send, "GET", server.url, settings=QUICK)
    report = redrive.report_of(caught.value)
    assert report is not None
    assert (report.operation, report.made) == ("handler", len(server.seen))
    assert len(server.seen) == (1 if headers else 3)


@pytest.mark.parametrize("headers", [{}, {"Redrive-Attempt": "1"}])
def test_a_guarded_call_that_never_retries_gets_the_response(client: Client, headers: dict[str, str]) -> None:
    with FlakyServer(then=503) as server, inherit_ownership(headers):
        answer = redrive.Retrier(attempts=1).call(client.send, "GET", server.url, settings=QUICK)
    assert answer.status == 503
    assert len(server.seen) == (1 if headers else 3)


@pytest.mark.parametrize("choice", [True, False])
def test_what_an_adapter_was_told_to_raise_holds_with_any_owner(client: Client, choice: bool) -> None:
    settings = {**QUICK, "raise_on_failure": choice}
    with FlakyServer(then=503) as server, inherit_ownership({"Redrive-Attempt": "1"}):
        if choice:
            with pytest.raises(client.status_error):
                client.send("GET", server.url, settings=settings)
        else:
            assert client.send("GET", server.url, settings=settings).status == 503


def attempts_made() -> int:
    made = []

    @redrive.retry(**QUICK)
    def work() -> None:
        made.append(1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        work()
    return len(made)


Messages = list[dict[str, Any]]


class AsgiApp:
    """Makes a guarded call before its response, and another one after it."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.scopes: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope["type"])
        self.made.append(attempts_made())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        self.made.append(attempts_made())
        await send({"type": "http.response.body", "body": b"b"})
        self.made.append(attempts_made())


def ask(app: Any, headers: Iterable[tuple[bytes, bytes]], kind: str = "http") -> Messages:
    sent: Messages = []

    async def main() -> None:
        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        await app({"type": kind, "headers": list(headers)}, receive, send)

    asyncio.run(main())
    return sent


@pytest.mark.promise("L4")
@pytest.mark.parametrize(
    ("headers", "made"),
    [
        ([], [3, 3, 3]),
        ([(b"redrive-attempt", b"1")], [1, 1, 3]),
        ([(b"redrive-attempt", b"\xff")], [3, 3, 3]),
        ([(b"redrive-deadline", b"60")], [3, 3, 3]),
    ],
)
def test_an_asgi_application_leaves_the_retries_to_its_caller(
    headers: list[tuple[bytes, bytes]], made: list[int]
) -> None:
    """What runs after the response, such as a background task, does not: its caller hears no more of it."""
    app = AsgiApp()
    sent = ask(fastapi.RetryOwnerMiddleware(app), headers)
    assert app.made == made
    assert [message.get("body") for message in sent] == [None, b"a", b"b"]
    assert attempts_made() == 3


def test_what_is_no_request_passes_the_middleware() -> None:
    app = AsgiApp()
    ask(asgi.RetryOwnerMiddleware(app), [(b"redrive-attempt", b"1")], kind="websocket")
    assert app.scopes == ["websocket"]
    assert app.made == [3, 3, 3]


@pytest.mark.promise("L4")
@pytest.mark.parametrize(("headers", "made"), [({}, b"3"), ({"HTTP_REDRIVE_ATTEMPT": "2"}, b"1")])
def test_a_wsgi_application_leaves_the_retries_to_its_caller(headers: dict[str, str], made: bytes) -> None:
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [str(attempts_made()).encode()]

    environ: dict[str, Any] = {**headers}
    setup_testing_defaults(environ)
    assert list(wsgi.RetryOwnerMiddleware(app)(environ, lambda *_: None)) == [made]
    assert attempts_made() == 3


def test_a_background_task_of_fastapi_owns_its_retries() -> None:
    """The real framework: its tasks run after the response, inside the same call of the application."""
    from fastapi import BackgroundTasks, FastAPI

    app, made = FastAPI(), list[int]()
    app.add_middleware(fastapi.RetryOwnerMiddleware)

    @app.get("/")
    def root(tasks: BackgroundTasks) -> int:
        tasks.add_task(lambda: made.append(attempts_made()))
        return attempts_made()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "server": ("test", 80),
        "client": ("test", 1),
        "headers": [(b"redrive-attempt", b"1")],
    }
    bodies = []

    async def main() -> None:
        async def send(message: Any) -> None:
            bodies.append(message.get("body"))

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        await app(scope, receive, send)

    asyncio.run(main())
    assert bodies == [None, b"1"]
    assert made == [3]
