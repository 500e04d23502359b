"""Who gets in: this machine without keys, roles with keys; how often, and what no answer may show."""

import asyncio
import hashlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop
from tests.server.serving import NO_FLOW, Serving, problem, serving

from redrive.client.app import App
from redrive.errors import StoreUnavailableError
from redrive.explain.explanation import Explanation
from redrive.explain.parts import Note
from redrive.server.access.api_keys import Role, new_key
from redrive.server.access.closed_store import reopen
from redrive.server.http_server import bind

WHY = {"why": "because"}
STEP = {"name": "gate_step", "endpoint": "http://127.0.0.1:9/x"}
# What each endpoint needs, and a request that gets as far as its role is asked for.
ENDPOINTS: list[tuple[str, str, Role | None, Any]] = [
    ("POST", "/v1/steps", "admin", STEP),
    ("GET", "/v1/steps", "read", None),
    ("GET", "/v1/steps/none", "read", None),
    ("DELETE", "/v1/steps/none", "admin", None),
    ("POST", "/v1/flows", "operate", {}),
    ("GET", "/v1/flows", "read", None),
    ("GET", f"/v1/flows/{NO_FLOW}", "read", None),
    ("GET", f"/v1/flows/{NO_FLOW}/explain", "read", None),
    ("GET", f"/v1/flows/{NO_FLOW}/events", "read", None),
    ("POST", f"/v1/flows/{NO_FLOW}/cancel", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/pause", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/resume", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/retry", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/policy", "operate", {**WHY, "policy": "attempts: 10"}),
    ("POST", f"/v1/flows/{NO_FLOW}/signals/go", "operate", {}),
    ("POST", f"/v1/flows/{NO_FLOW}/queries/go", "read:payload", {}),
    ("POST", f"/v1/flows/{NO_FLOW}/updates/go", "operate", {}),
    ("POST", "/v1/flows/bulk", "operate", {"action": "pause", "filter": {"queue": "gate"}, **WHY}),
    ("POST", f"/v1/flows/{NO_FLOW}/steps/a/reset", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/steps/a/complete", "operate", WHY),
    ("POST", f"/v1/flows/{NO_FLOW}/steps/a/resolve", "operate", WHY),
    ("POST", "/v1/completions/nonsense", None, {}),
    ("GET", "/v1/dead-letters", "read", None),
    ("GET", f"/v1/dead-letters/{NO_FLOW}", "read", None),
    ("POST", f"/v1/dead-letters/{NO_FLOW}/redrive", "operate", WHY),
    ("POST", f"/v1/dead-letters/{NO_FLOW}/discard", "operate", WHY),
    ("POST", "/v1/dead-letters/redrive", "operate", {"all": True, **WHY}),
    ("POST", "/v1/dead-letters/discard", "operate", {"all": True, **WHY}),
    ("GET", "/v1/retries", "read", None),
    ("GET", "/v1/queues", "read", None),
    ("PUT", "/v1/queues/gate", "admin", {"limit": 5}),
    ("POST", "/v1/queues/gate/pause", "admin", {"why": "a test"}),
    ("POST", "/v1/queues/gate/resume", "admin", {"why": "a test"}),
    ("GET", "/v1/batches", "read", None),
    ("POST", "/v1/batches", "operate", {"name": "gate"}),
    ("GET", "/v1/batches/gate", "read", None),
    ("POST", "/v1/batches/gate/cancel", "operate", WHY),
    ("POST", "/v1/batches/gate/redrive", "operate", WHY),
    ("GET", "/v1/schedules", "read", None),
    ("GET", "/v1/schedules/gate", "read", None),
    ("PUT", "/v1/schedules/gate", "operate", {"flow": {}, "timing": {}}),
    ("POST", "/v1/schedules/gate/pause", "operate", WHY),
    ("POST", "/v1/schedules/gate/resume", "operate", WHY),
    ("POST", "/v1/schedules/gate/trigger", "operate", WHY),
    ("POST", "/v1/schedules/gate/backfill", "operate", WHY),
    ("DELETE", "/v1/schedules/gate", "operate", None),
    ("GET", "/v1/workers", "read", None),
    ("GET", "/v1/overview", "read", None),
    ("GET", "/v1/activity", "read", None),
    ("GET", "/v1/flows/count", "read", None),
    ("GET", "/v1/dead-letters/groups", "read", None),
    ("GET", "/v1/definitions", "read", None),
    ("GET", "/v1/dependencies", "read", None),
    ("POST", "/v1/dependencies/bank/open", "operate", {"why": "a test"}),
    ("POST", "/v1/dependencies/bank/close", "operate", {"why": "a test"}),
    ("GET", "/v1/audit", "admin", None),
    ("POST", "/v1/policies", "read", {"text": "[retry: 3]"}),
    ("GET", "/v1/session", None, None),
    ("DELETE", "/v1/session", None, None),
    ("GET", "/metrics", "read", None),
    ("GET", "/healthz", None, None),
    ("GET", "/readyz", None, None),
    ("GET", "/openapi.json", None, None),
]
ROLES: tuple[Role, ...] = ("read", "read:payload", "operate", "admin")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Serving]:
    """A server with keys."""
    with serving(worker=False) as server:
        server.key("read", "first")
        yield server


@pytest.fixture(scope="module")
def keys(guarded: Serving) -> dict[str, str]:
    return {role: guarded.key(role) for role in ROLES}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize(("method", "path", "needs", "body"), ENDPOINTS)
def test_every_endpoint_lets_in_the_roles_that_may_and_no_others(
    guarded: Serving, keys: dict[str, str], method: str, path: str, needs: Role | None, body: Any
) -> None:
    without = guarded.client.request(method, path, json=body)
    if needs is None:
        assert without.status_code not in (401, 403)
        return
    assert problem(without, 401)["parameter"] == "Authorization"
    assert without.headers["www-authenticate"] == "Bearer"
    for role in ROLES:
        answer = guarded.client.request(method, path, json=body, headers=bearer(keys[role]))
        if ROLES.index(role) < ROLES.index(needs):
            assert f"the role {needs}" in problem(answer, 403)["detail"]
        else:
            assert answer.status_code not in (401, 403), answer.text


def test_the_matrix_names_every_endpoint(guarded: Serving) -> None:
    known = {(method.upper(), path) for path, all_of in document(guarded)["paths"].items() for method in all_of}
    tried = set()
    for method, path, _, _ in ENDPOINTS:
        tried |= {one for one in known if one[0] == method and fits(one[1], path)}
    # A sign-in is refused like a request without a key: see test_sessions.py.
    assert tried == known - {("POST", "/v1/session")}


def document(server: Serving) -> Any:
    return server.client.get("/openapi.json").json()


def fits(template: str, path: str) -> bool:
    parts = zip(template.split("/"), path.split("/"), strict=False)
    return template.count("/") == path.count("/") and all(one == two or one.startswith("{") for one, two in parts)


@pytest.mark.parametrize(
    "given",
    ["", "Bearer", "Bearer nonsense", "Basic dXNlcjpwYXNz", "Bearer rdk_000000000000_" + "0" * 64, "Bearer \u00e4"],
)
def test_a_wrong_key_is_refused(guarded: Serving, given: str) -> None:
    problem(guarded.client.get("/v1/flows", headers={b"Authorization": given.encode("latin-1")}), 401)


def test_the_secret_of_one_key_does_not_open_another(guarded: Serving, keys: dict[str, str]) -> None:
    _, id_, _ = keys["read"].split("_")
    _, _, secret = keys["admin"].split("_")
    problem(guarded.client.get("/v1/flows", headers=bearer(f"rdk_{id_}_{secret}")), 401)


def test_a_revoked_key_is_out(guarded: Serving) -> None:
    key = guarded.key("read", "short-lived")
    assert guarded.client.get("/v1/flows", headers=bearer(key)).status_code == 200
    assert guarded.ask(lambda app: app.store.drop_key(key.split("_")[1]))
    problem(guarded.client.get("/v1/flows", headers=bearer(key)), 401)


def test_a_revoked_key_ends_the_streams_that_it_opened(guarded: Serving) -> None:
    key = guarded.key("read", "short-lived")
    flow = guarded.ask(lambda app: app.start(shop.pay(cents=1)))
    asked = {**bearer(key), "Accept": "text/event-stream"}
    with guarded.client.stream("GET", f"/v1/flows/{flow.id}/events", headers=asked, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        assert guarded.ask(lambda app: app.store.drop_key(key.split("_")[1]))
        # Else it would go on until the flow ends, and nobody works on that.
        assert not [line for line in lines if line.startswith("event")]


def test_the_first_key_ends_the_streams_that_were_opened_without_one() -> None:
    with serving(worker=False) as server:
        flow = server.ask(lambda app: app.start(shop.pay(cents=1)))
        asked = {"Accept": "text/event-stream"}
        with server.client.stream("GET", f"/v1/flows/{flow.id}/events", headers=asked, timeout=20) as answer:
            lines = answer.iter_lines()
            assert next(lines)
            server.key("read")
            assert not [line for line in lines if line.startswith("event")]


def test_the_store_keeps_a_digest_of_a_key_only() -> None:
    row, key = new_key("ci", "read", 0.0)
    secret = key.split("_")[2]
    assert len(secret) == 64
    assert secret not in repr(row)
    assert row.digest == hashlib.sha256(secret.encode()).hexdigest()


def test_without_keys_only_this_machine_may_ask() -> None:
    with serving(worker=False) as server:
        for host in ("127.0.0.1", "localhost", "localhost:8717", "[::1]:8717", "redrive.localhost"):
            assert server.client.get("/v1/flows", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "[::", ""):
            problem(server.client.get("/v1/flows", headers={"Host": host}), 403)


def test_without_keys_pages_of_other_sites_may_not_ask() -> None:
    with serving(worker=False) as server:
        for origin in ("https://evil.example", "http://127.0.0.1:1", "http://localhost", "null"):
            answer = server.client.post("/v1/flows", json={}, headers={"Origin": origin})
            assert problem(answer, 403)["parameter"] == "Origin"
        assert server.client.get("/v1/flows", headers={"Origin": server.url}).status_code == 200


@pytest.mark.promise("X9")
@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Forwarded-Host", "X-Real-IP"])
def test_without_keys_requests_through_a_proxy_are_refused(header: str) -> None:
    with serving(worker=False) as server:
        said = problem(server.client.get("/v1/flows", headers={header: "203.0.113.7"}), 403)
        assert said["parameter"] == header
        assert "redrive keys add" in said["detail"]
        assert server.client.get("/healthz", headers={header: "203.0.113.7"}).status_code == 200
        passed = {**bearer(server.key("read")), header: "203.0.113.7"}
        assert server.client.get("/v1/flows", headers=passed).status_code == 200


@pytest.mark.promise("X9")
def test_revoking_the_last_key_does_not_open_the_server() -> None:
    with serving(worker=False) as server:
        key = server.key("read")
        assert server.client.get("/v1/flows", headers=bearer(key)).status_code == 200
        assert server.ask(lambda app: app.store.drop_key(key.split("_")[1]))
        problem(server.client.get("/v1/flows"), 401)
        problem(server.client.get("/v1/flows", headers=bearer(key)), 401)
        (mark,) = server.ask(lambda app: app.store.list_keys())
        problem(server.client.get("/v1/flows", headers=bearer(f"rdk_{mark.id}_{mark.digest}")), 401)
        assert server.ask(lambda app: reopen(app.store))
        assert server.client.get("/v1/flows").status_code == 200


def test_a_server_that_others_reach_lets_nobody_in_without_a_key() -> None:
    """Also when the last key is revoked while it runs."""
    with serving(worker=False, on_loopback=False) as server:
        problem(server.client.get("/v1/flows"), 401)
        key = server.key("read")
        assert server.client.get("/v1/flows", headers=bearer(key)).status_code == 200
        server.ask(lambda app: app.store.drop_key(key.split("_")[1]))
        problem(server.client.get("/v1/flows", headers=bearer(key)), 401)
        assert server.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("by", "kept"), [("anna", "key night shift (as anna)"), ("", "key night shift")])
def test_who_did_it_names_the_key(guarded: Serving, by: str, kept: str) -> None:
    key = guarded.key("operate", "night shift")
    start = {"action": "srv_pay", "inputs": {"cents": 1}}
    flow_id = guarded.client.post("/v1/flows", json=start, headers=bearer(key)).json()["id"]
    guarded.client.post(f"/v1/flows/{flow_id}/pause", json={"why": "tea", "by": by}, headers=bearer(key))
    explained = guarded.ask(lambda app: _worked(app, flow_id))
    assert [entry.by for entry in explained.timeline if isinstance(entry, Note) and entry.what == "paused"] == [kept]


async def _worked(app: App, flow_id: str) -> Explanation:
    """The flow, once a worker has read its mail."""
    working = asyncio.create_task(app.work())
    while (await app.find(flow_id)).status != "paused":  # noqa: ASYNC110 - the flow is in a store
        await asyncio.sleep(0.01)
    explained = await app.explain(flow_id)
    working.cancel()
    return explained


def test_requests_beyond_the_rate_are_turned_away_for_that_key_only() -> None:
    with serving(worker=False, rate=0.001, burst=3) as server:
        one, two = server.key("read", "one"), server.key("read", "two")
        answers = [server.client.get("/v1/flows", headers=bearer(one)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        problem(answers[-1], 429)
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert server.client.get("/v1/flows", headers=bearer(two)).status_code == 200
        assert [server.client.get("/healthz").status_code for _ in range(9)] == [200] * 9


def test_a_body_that_is_too_large_is_refused_however_it_is_sent() -> None:
    with serving(worker=False, largest_body=1000) as server:
        large = b'{"workflow": "' + b"x" * 2000 + b'"}'
        headers = {"Content-Type": "application/json"}
        problem(server.client.post("/v1/flows", content=large, headers=headers), 413)
        problem(server.client.post("/v1/flows", content=iter([large]), headers=headers), 413)
        problem(server.client.post("/v1/completions/x", content=large, headers=headers), 413)


def test_headers_that_are_too_large_end_the_connection(guarded: Serving) -> None:
    host, _, port = guarded.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * 200_000 + b"\r\n\r\n")
        assert b" 400 " in raw.recv(1000).split(b"\r\n")[0] + b" "


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    with serving(worker=False, body_timeout=0.1) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(b"POST /v1/flows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            answer = raw.recv(5000)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer


def test_a_client_that_goes_away_within_its_body_is_no_fault_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    with serving(worker=False) as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        for body in (b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
            with socket.create_connection((host, int(port)), timeout=10) as raw:
                raw.sendall(b"POST /v1/flows HTTP/1.1\r\nHost: localhost\r\n" + body)
                raw.shutdown(socket.SHUT_WR)
                assert raw.recv(1000) == b""
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_small_answers_are_sent_at_once() -> None:
    with bind("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_every_answer_carries_safe_headers(guarded: Serving) -> None:
    for path in ("/healthz", "/v1/flows", "/v1/nothing"):
        headers = guarded.client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_monitors_may_ask_with_head(guarded: Serving, path: str) -> None:
    headers = bearer(guarded.key("read", "monitor"))
    answer = guarded.client.head(path, headers=headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == guarded.client.get(path, headers=headers).headers["content-type"]
    if path == "/metrics":
        assert guarded.client.head(path).status_code == 401


def test_a_store_that_is_away_is_503_and_the_server_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(worker=False) as server:

        async def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailableError(f"cannot reach postgresql://app:{shop.SECRET}@db")

        for verb in ("list_flows", "find_flow", "list_keys"):
            monkeypatch.setattr(server.app.store, verb, away)
            for path in ("/v1/flows", "/readyz"):
                if verb == "list_keys" and path == "/readyz":
                    continue
                answer = server.client.get(path)
                if verb == "list_flows" and path == "/readyz":
                    assert answer.status_code == 200
                    continue
                if verb == "find_flow" and path == "/v1/flows":
                    answer = server.client.get(f"/v1/flows/{NO_FLOW}")
                problem(answer, 503)
                assert answer.headers["retry-after"] == "1"
                assert shop.SECRET not in answer.text
            monkeypatch.undo()
        assert server.client.get("/healthz").status_code == 200


def test_a_mistake_of_the_server_shows_in_its_log_and_not_in_its_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(worker=False) as server:

        async def broken(*_: Any) -> Any:
            raise RuntimeError("a mistake") from ValueError(f"password={shop.SECRET}")

        monkeypatch.setattr(server.app.store, "find_flow", broken)
        with caplog.at_level(logging.ERROR):
            said = problem(server.client.post(f"/v1/completions/{NO_FLOW}.1.{shop.SECRET}", json={}), 500)
        assert "a mistake" not in str(said)
        assert "POST /v1/completions/{token} failed" in caplog.text
        assert "a mistake" in caplog.text
        assert shop.SECRET not in caplog.text


def test_keys_show_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), serving(worker=False) as server:
        key = server.key("read")
        server.client.get("/v1/flows", headers=bearer(key))
        server.client.get("/v1/flows", headers=bearer(key + "0"))
        secret = key.split("_")[2]
    assert secret not in "".join(record.getMessage() for record in caplog.records if record.name.startswith("redrive"))
    assert secret not in "".join(record.getMessage() for record in caplog.records if record.name.startswith("uvicorn"))


def test_metrics_are_there_for_prometheus(guarded: Serving, keys: dict[str, str]) -> None:
    answer = guarded.client.get("/metrics", headers=bearer(keys["read"]))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "redrive_retries" in answer.text


def test_what_an_endpoint_can_do_may_be_asked(guarded: Serving, keys: dict[str, str]) -> None:
    problem(guarded.client.options("/v1/flows"), 401)
    answer = guarded.client.options("/v1/flows", headers=bearer(keys["read"]))
    assert answer.status_code == 204
    assert "OPTIONS" in answer.headers["allow"]
