"""Whatever is sent, the answer is no 500, and the log has no traceback."""

import logging
from collections.abc import Iterator

import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, received, serving

from redrive.flows.events import ItemStarted, Line

pytestmark = pytest.mark.promise("X9")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "G")
HOST = b"Host: localhost\r\n"
CLOSE = HOST + b"Connection: close\r\n"
POST = b"POST /v1/flows HTTP/1.1\r\n" + CLOSE
JSON = b"Content-Type: application/json\r\n"
COMPLETION = b"/v1/completions/" + NO_FLOW.encode() + b".1.x"

# What is sent, the statuses of the answers, and the lines that it may leave in the log.
REQUESTS: dict[str, tuple[bytes, list[int], int]] = {
    "nothing that is HTTP": (b"\x00\x01\x02\r\n\r\n", [400], 1),
    "a TLS hello": (bytes.fromhex("16030100a5010000a10303") + b"\0" * 100 + b"\r\n\r\n", [400], 1),
    "HTTP/0.9": (b"GET /healthz\r\n\r\n", [400], 1),
    "HTTP/1.0": (b"GET /healthz HTTP/1.0\r\n\r\n", [200], 0),
    "HTTP/2.0 by name": (b"GET /healthz HTTP/2.0\r\n" + CLOSE + b"\r\n", [505], 0),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [505], 1),
    "no host": (b"GET /healthz HTTP/1.1\r\n\r\n", [400], 1),
    "two hosts": (b"GET /healthz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", [400], 1),
    "a URL for a path": (b"GET http://localhost/v1/flows HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "a star for a path": (b"OPTIONS * HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "a host for a path": (b"CONNECT example.com:443 HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "NUL in the path": (b"GET /v1/flows/\x00 HTTP/1.1\r\n" + CLOSE + b"\r\n", [400], 1),
    "escaped NUL in the path": (b"GET /v1/flows/%00 HTTP/1.1\r\n" + CLOSE + b"\r\n", [400], 0),
    "escaped NUL in the query": (b"GET /v1/flows?key=%00 HTTP/1.1\r\n" + CLOSE + b"\r\n", [400], 0),
    "broken escapes in the path": (b"GET /v1/flows/%zz%ff%fe%ed%a0%80 HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "broken escapes in the query": (b"GET /v1/flows?%ff=%zz&&=;a HTTP/1.1\r\n" + CLOSE + b"\r\n", [400], 0),
    "half a character in the query": (b"GET /v1/flows?key=%ed%a0%80 HTTP/1.1\r\n" + CLOSE + b"\r\n", [200], 0),
    "dots in the path": (b"GET /v1/../v1/flows HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "a long path": (b"GET /v1/flows/" + b"a" * 20_000 + b" HTTP/1.1\r\n" + CLOSE + b"\r\n", [404], 0),
    "a long header": (b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 60_000 + b"\r\n" + CLOSE + b"\r\n", [431], 0),
    "many headers": (b"GET /healthz HTTP/1.1\r\n" + b"X: a\r\n" * 2000 + CLOSE + b"\r\n", [200], 0),
    "a header with a line break": (b"GET /healthz HTTP/1.1\r\nX: a\r\n b\r\n" + CLOSE + b"\r\n", [200], 0),
    "a header without a name": (b"GET /healthz HTTP/1.1\r\n: a\r\n" + CLOSE + b"\r\n", [400], 1),
    "a key that is not ASCII": (
        b"GET /v1/flows HTTP/1.1\r\nAuthorization: Bearer \xff\r\n" + CLOSE + b"\r\n",
        [200],
        0,
    ),
    "a broken cookie": (b'GET /v1/flows HTTP/1.1\r\nCookie: \xff=;;"\r\n' + CLOSE + b"\r\n", [200], 0),
    "a broken Accept": (b"GET /v1/flows HTTP/1.1\r\nAccept: ;;q=z,*/*;q=nan\r\n" + CLOSE + b"\r\n", [200], 0),
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", [400], 1),
    "a negative length": (POST + b"Content-Length: -3\r\n\r\nabc", [400], 1),
    "a length that is no number": (POST + b"Content-Length: abc\r\n\r\nabc", [400], 1),
    "an endless length": (POST + b"Content-Length: 99999999999999999999\r\n\r\nabc", [413], 0),
    "a length of many digits": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nabc", [400], 1),
    "a length and chunks": (
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        [422],
        0,
    ),
    "an unknown transfer encoding": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", [400], 1),
    "a compressed body": (POST + JSON + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", [415], 0),
    "a chunk without a size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n", [400], 1),
    "a chunk that goes on": (POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX\r\n0\r\n\r\n", [400], 1),
    "an unknown content type": (POST + b"Content-Type: ;;=\xff\r\nContent-Length: 2\r\n\r\n{}", [422], 0),
    "an unknown charset": (
        POST + b"Content-Type: application/json; charset=x\r\nContent-Length: 2\r\n\r\n{}",
        [422],
        0,
    ),
    "a body that is no JSON": (POST + JSON + b"Content-Length: 3\r\n\r\n{{{", [400], 0),
    "a body that is no text": (POST + JSON + b'Content-Length: 6\r\n\r\n{"\xff":1', [400], 0),
    "an empty body": (POST + JSON + b"Content-Length: 0\r\n\r\n", [400], 0),
    "a promise to wait": (POST + JSON + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", [100, 422], 0),
    "another promise": (POST + JSON + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", [422], 0),
    "an upgrade to WebSocket": (
        b"GET /healthz HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"
        + HOST
        + b"\r\n",
        [200],
        0,
    ),
    "an upgrade to HTTP/2": (
        b"GET /healthz HTTP/1.1\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n" + HOST + b"\r\n",
        [200],
        0,
    ),
    "several requests at once": (
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 3 + b"GET /nothing HTTP/1.1\r\n" + CLOSE + b"\r\n",
        [200, 200, 200, 404],
        0,
    ),
    "a request and then something else": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n\x00\x01\r\n\r\n", [200, 400], 1),
    "a stream of a flow that is not there": (
        b"GET /v1/flows/x/events HTTP/1.1\r\nAccept: text/event-stream\r\nLast-Event-ID: \xff\r\n" + CLOSE + b"\r\n",
        [404],
        0,
    ),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(worker=False, rate=1e6, burst=10**6) as one:
        yield one


@pytest.fixture(scope="module")
def guarded() -> Iterator[Serving]:
    with serving(worker=False, rate=1e6, burst=10**6) as one:
        one.key("read")
        yield one


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("redrive.server", "uvicorn", "asyncio")) and record.levelno >= logging.WARNING
    ]


def statuses(answer: bytes) -> list[int]:
    parts = answer.split(b"HTTP/1.1 ")
    assert parts[0] == b""
    return [int(part.split()[0]) for part in parts[1:]]


@pytest.mark.parametrize(("sent", "expected", "lines"), REQUESTS.values(), ids=REQUESTS)
def test_hostile_requests_are_answered_plainly(
    server: Serving, caplog: pytest.LogCaptureFixture, sent: bytes, expected: list[int], lines: int
) -> None:
    answer = received(server.connect(sent))
    assert statuses(answer) == expected
    if expected[-1] >= 400:
        assert b"application/problem+json" in answer
    assert len(log_lines(caplog)) <= lines
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("keys", [False, True], ids=["without keys", "with keys"])
def test_every_method_on_every_path_has_an_answer(
    server: Serving, guarded: Serving, caplog: pytest.LogCaptureFixture, keys: bool
) -> None:
    asked = guarded if keys else server
    templates = asked.client.get("/openapi.json").json()["paths"]
    paths = [template.replace("{", "").replace("}", "") for template in templates]
    for path in [*paths, "/", "/healthz/", "//healthz", "/readyz/x", "/v1", "/nothing", "/v1/flows/a/b/c/d"]:
        for method in METHODS:
            answer = asked.client.request(method, path)
            assert answer.status_code < 500, (method, path, answer.text)
            if answer.status_code >= 400 and method != "HEAD":
                problem(answer, answer.status_code)
    assert log_lines(caplog) == []


def test_options_of_a_health_check_is_a_request_like_any_other(server: Serving, guarded: Serving) -> None:
    for path in ("/healthz", "/readyz"):
        problem(guarded.client.options(path), 401)
        answer = server.client.options(path)
        assert answer.status_code == 204
        assert "GET" in answer.headers["allow"]


def test_health_checks_by_other_methods_count_as_requests() -> None:
    with serving(worker=False, rate=0.001, burst=2) as server:
        assert [server.client.options("/healthz").status_code for _ in range(3)] == [204, 204, 429]
        assert [server.client.get("/healthz").status_code for _ in range(9)] == [200] * 9


def test_a_broken_chunk_after_the_answer_is_one_line_in_the_log(
    guarded: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    sent = b"POST /v1/flows HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    with guarded.connect(sent) as raw:
        assert statuses(raw.recv(10_000)) == [401]
        raw.sendall(b"zz\r\n")
        assert b"HTTP/1.1" not in received(raw)
    # At most: beyond a few lines a second, the rest is left out.
    assert log_lines(caplog) in ([], ["Invalid HTTP request received."])


def test_a_broken_chunk_within_the_body_is_one_line_in_the_log(
    server: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    sent = b"POST /v1/flows HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
    with server.connect(sent) as raw:
        assert statuses(raw.recv(10_000)) == [100]
        raw.sendall(b"2\r\n{}\r\n")
        raw.sendall(b"zz\r\n")
        assert statuses(received(raw)) == [400]
    # At most: beyond a few lines a second, the rest is left out.
    assert log_lines(caplog) in ([], ["Invalid HTTP request received."])


@pytest.mark.parametrize("body", [b"{{{", b"\xff", b'{"outputs": ', b"[1, 2"])
def test_a_completion_that_is_malformed_is_a_bad_request(body: bytes) -> None:
    with serving() as server:
        token = _token_of_a_running_attempt(server)
        answer = server.client.post(f"/v1/completions/{token}", content=body)
        assert "not JSON" in problem(answer, 400)["detail"]


def _token_of_a_running_attempt(server: Serving) -> str:
    flow_id = server.start(f"action:{shop.flaky.name}")
    found = server.until(lambda: _deliveries(server.ask(lambda app: app.read_lines(flow_id))), bool)
    return f"{flow_id}.1.{found[0]}"


def _deliveries(lines: list[Line]) -> list[str]:
    return [line.event.delivery for line in lines if isinstance(line.event, ItemStarted)]
