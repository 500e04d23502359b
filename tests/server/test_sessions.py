"""Sign-in of the dashboard: the cookie stands for the key, ends with it, and is of no use to pages of other sites."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.server import shop  # noqa: F401 - it registers what the flows run
from tests.server.serving import Serving, problem, serving

from redrive.server.access import sessions
from redrive.server.access.api_keys import ApiKeys, Caller

OWN = {"X-Redrive-Request": "1"}
WHY = {"why": "a test"}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(worker=False, failed_sign_ins=1000) as server:
        server.key("admin", "first")
        yield server


@contextmanager
def browser(server: Serving, key: str) -> Iterator[httpx.Client]:
    """A client that has signed in."""
    with httpx.Client(base_url=server.url, timeout=20) as client:
        answer = client.post("/v1/session", json={"key": key})
        assert answer.status_code == 200, answer.text
        yield client


def cookie(server: Serving) -> str:
    return f"redrive_session_{httpx.URL(server.url).port}"


def session(client: httpx.Client, **headers: str) -> Any:
    return client.get("/v1/session", headers=headers).json()


def test_a_key_begins_a_session_that_has_its_rights(server: Serving) -> None:
    with browser(server, server.key("read", "board")) as client:
        found = session(client)
        assert {name: found[name] for name in ("signed_in", "role", "name", "payloads", "limited", "read_only")} == {
            "signed_in": True,
            "role": "read",
            "name": "board",
            "payloads": False,
            "limited": False,
            "read_only": False,
        }
        assert found["store"] == "memory://"
        assert client.get("/v1/flows").status_code == 200
        refused = client.post("/v1/flows/none/cancel", json=WHY, headers=OWN)
        assert "the role operate" in problem(refused, 403)["detail"]


def test_without_a_session_the_store_is_not_named(server: Serving) -> None:
    found = session(server.client)
    assert found["signed_in"] is False
    assert found["store"] is None
    assert found["role"] is None
    assert found["keys_required"] is True


def test_a_key_in_the_header_counts_as_signed_in(server: Serving) -> None:
    found = session(server.client, Authorization=f"Bearer {server.key('operate', 'ci', queues=('mail',))}")
    assert (found["signed_in"], found["role"], found["limited"]) == (True, "operate", True)


def test_the_cookie_is_for_this_site_alone_and_not_for_scripts(server: Serving) -> None:
    key = server.key("read")
    answer = server.client.post("/v1/session", json={"key": key})
    server.client.cookies.clear()
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"]
    assert key.split("_")[2] not in value
    with_tls = server.client.post("/v1/session", json={"key": key}, headers={"X-Forwarded-Proto": "https"})
    server.client.cookies.clear()
    assert with_tls.headers["set-cookie"].endswith("; Secure")


def test_no_two_sessions_have_the_same_cookie(server: Serving) -> None:
    key = server.key("read")
    with browser(server, key) as one, browser(server, key) as two:
        assert one.cookies[cookie(server)] != two.cookies[cookie(server)]
        assert len(one.cookies[cookie(server)]) == 64


def test_two_servers_on_one_host_leave_each_other_signed_in(server: Serving) -> None:
    """Browsers send a cookie to every port of its host."""
    with serving(worker=False) as other, browser(server, server.key("read", "one")) as client:
        entered = client.post(f"{other.url}/v1/session", json={"key": other.key("operate", "two")})
        assert entered.status_code == 200
        assert session(client)["name"] == "one"
        assert client.get(f"{other.url}/v1/session").json()["name"] == "two"
        assert client.delete(f"{other.url}/v1/session", headers=OWN).status_code == 204
        assert session(client)["name"] == "one"


@pytest.mark.parametrize("key", ["nonsense", "rdk_000000000000_" + "0" * 64, " "])
def test_a_wrong_key_begins_none(server: Serving, key: str) -> None:
    answer = server.client.post("/v1/session", json={"key": key})
    assert problem(answer, 401)["pointer"] == "/key"
    assert "set-cookie" not in answer.headers


def test_a_cookie_that_is_not_known_opens_nothing(server: Serving) -> None:
    for value in ("0" * 64, "", "x" * 3000):
        answer = server.client.get("/v1/flows", headers={"Cookie": f"{cookie(server)}={value}"})
        assert problem(answer, 401)


def test_signing_out_ends_the_session_and_no_other(server: Serving) -> None:
    key = server.key("read")
    with browser(server, key) as one, browser(server, key) as two:
        value = one.cookies[cookie(server)]
        assert one.delete("/v1/session", headers=OWN).status_code == 204
        assert cookie(server) not in one.cookies
        again = one.get("/v1/flows", headers={"Cookie": f"{cookie(server)}={value}"})
        assert "has ended" in problem(again, 401)["detail"]
        assert two.get("/v1/flows").status_code == 200


def test_a_session_ends_with_its_key(server: Serving) -> None:
    key = server.key("read")
    with browser(server, key) as client:
        assert server.ask(lambda app: app.store.drop_key(key.split("_")[1]))
        problem(client.get("/v1/flows"), 401)
        assert session(client)["signed_in"] is False


def test_a_session_ends_after_its_time() -> None:
    with serving(worker=False, session_lifetime=0.3) as server, browser(server, server.key("read")) as client:
        value = client.cookies[cookie(server)]
        sent = {"Cookie": f"{cookie(server)}={value}"}
        assert server.client.get("/v1/flows", headers=sent).status_code == 200
        server.until(lambda: server.client.get("/v1/flows", headers=sent).status_code, lambda code: code == 401)


def test_signing_out_ends_the_streams_of_the_session(server: Serving) -> None:
    with (
        browser(server, server.key("read")) as client,
        client.stream("GET", "/v1/queues", headers={"Accept": "text/event-stream"}) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith(":")
        assert client.delete("/v1/session", headers=OWN).status_code == 204
        # Else it would go on for ever.
        assert [*lines]


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({}, "X-Redrive-Request"),
        ({"X-Redrive-Request": "0"}, "X-Redrive-Request"),
        ({**OWN, "Origin": "https://evil.example"}, "Origin"),
        ({**OWN, "Origin": "null"}, "Origin"),
        ({**OWN, "Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"),
        ({**OWN, "Sec-Fetch-Site": "same-site"}, "Sec-Fetch-Site"),
    ],
)
def test_with_a_session_only_the_own_page_changes_anything(server: Serving, headers: dict[str, str], said: str) -> None:
    with browser(server, server.key("operate")) as client:
        for method, path in (("POST", "/v1/flows/none/cancel"), ("DELETE", "/v1/session")):
            answer = client.request(method, path, headers=headers, json=WHY)
            assert problem(answer, 403)["parameter"] == said
        # It is refused, but it has not ended.
        assert session(client)["signed_in"] is True


def test_the_own_page_may(server: Serving) -> None:
    with browser(server, server.key("operate")) as client:
        for headers in (OWN, {**OWN, "Origin": server.url}, {**OWN, "Sec-Fetch-Site": "same-origin"}):
            problem(client.post("/v1/flows/none/cancel", json=WHY, headers=headers), 404)


def test_a_key_in_the_header_needs_no_other_header(server: Serving) -> None:
    sent = {"Authorization": f"Bearer {server.key('operate')}", "Cookie": f"{cookie(server)}=stale"}
    problem(server.client.post("/v1/flows/none/cancel", json=WHY, headers=sent), 404)


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_pages_of_other_sites_cannot_sign_a_browser_in(server: Serving, headers: dict[str, str]) -> None:
    answer = server.client.post("/v1/session", json={"key": server.key("read")}, headers=headers)
    problem(answer, 403)
    assert "set-cookie" not in answer.headers


def test_without_keys_this_machine_needs_no_sign_in() -> None:
    with serving(worker=False) as server:
        found = session(server.client)
        assert (found["signed_in"], found["role"], found["keys_required"]) == (True, "admin", False)
        assert "no API keys" in problem(server.client.post("/v1/session", json={"key": "x"}), 409)["detail"]
        problem(server.client.get("/v1/session", headers={"Host": "evil.example"}), 403)


def test_many_wrong_keys_are_slowed_down_and_a_right_one_still_gets_in(caplog: pytest.LogCaptureFixture) -> None:
    with serving(worker=False, failed_sign_ins=3) as server, caplog.at_level(logging.WARNING, "redrive"):
        key = server.key("read")
        wrong = {"key": "rdk_000000000000_" + "1" * 64}
        for _ in range(3):
            problem(server.client.post("/v1/session", json=wrong), 401)
        answer = server.client.post("/v1/session", json=wrong)
        problem(answer, 429)
        assert int(answer.headers["retry-after"]) > 1
        assert server.client.post("/v1/session", json={"key": key}).status_code == 200
        refusals = [record.getMessage() for record in caplog.records if "sign-in" in record.getMessage()]
        assert len(refusals) == 3
        assert "127.0.0.1" in refusals[0]
        assert wrong["key"] not in caplog.text


class TestBounds:
    def caller(self, id_: str) -> Caller:
        return Caller("read", id_)

    def test_one_key_ends_its_own_oldest_session_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "MOST_PER_KEY", 2)
        held = sessions.Sessions(ApiKeys(None, 1.0), 60.0)  # type: ignore[arg-type]  # the store is not asked
        other = held.begin(self.caller("b"))
        values = [held.begin(self.caller("a")) for _ in range(5)]
        assert len(held) == 3
        assert [held.has(value) for value in [other, *values]] == [True, False, False, False, True, True]

    def test_there_are_never_more_than_so_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
        held = sessions.Sessions(ApiKeys(None, 1.0), 60.0)  # type: ignore[arg-type]  # the store is not asked
        values = [held.begin(self.caller(str(number))) for number in range(5)]
        assert [held.has(value) for value in values] == [False, False, True, True, True]
