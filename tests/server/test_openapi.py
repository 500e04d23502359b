"""The OpenAPI document says what the server does: schemathesis tries it out."""

from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from tests.server import shop  # noqa: F401 - it registers what the flows run
from tests.server.serving import Serving, serving

from redrive.server.access.api_keys import ROLES, Role

EXAMPLES = 5
ROLE_EXAMPLES = 3
CANARY = "kanarie-0815"


STEP = {"name": "reserve", "endpoint": "https://shop.example.com/reserve", "inputs": {"order_id": "string"}}


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    """With flows that ended well, that failed and that wait, so that there is something to show."""
    with serving(rate=1e6, burst=10**6) as server:
        server.client.post("/v1/steps", json=STEP)
        server.finished(server.start("workflow:SrvOrder", {"user": "u1", "failures": 1}, key="first"))
        server.finished(server.start("action:srv_refuse", {"why": "no"}))
        server.start("action:srv_flaky")
        server.until(lambda: server.client.get("/v1/retries").json()["retries"], bool)
        server.start("workflow:SrvNap", {"seconds": 3600})
        yield server


def loaded(server: Serving) -> Any:
    config = SchemathesisConfig.from_dict(
        {
            # What fits the schema may still name nothing that exists (404, 422), or come too late (409); a key that is
            # made up begins no session (401).
            "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "401", "404", "409", "422"]}},
        }
    )
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json", config=config)


def test_no_server_error_and_no_contradiction(server: Serving) -> None:
    schema = loaded(server)
    known = existing(server)
    tried = set()
    for found in schema.get_all_operations():
        operation = found.ok()
        tried.add((operation.method, operation.path))
        attempt(operation, schemathesis.GenerationMode.POSITIVE, known)
        if can_be_wrong(schema.raw_schema["paths"][operation.path][operation.method]):
            attempt(operation, schemathesis.GenerationMode.NEGATIVE, {})
    every = {(method, path) for path, methods in schema.raw_schema["paths"].items() for method in methods}
    assert tried == every - {("get", "/openapi.json")}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Serving]:
    """A server with keys, and with flows whose inputs, results and errors hold the canary."""
    with serving(rate=1e6, burst=10**6, failed_sign_ins=10**6) as server:
        server.client.post("/v1/steps", json={**STEP, "inputs": {"order_id": {"default": CANARY}}})
        server.finished(server.start("workflow:SrvOrder", {"user": CANARY}))
        server.finished(server.start("action:srv_refuse", {"why": CANARY}))
        server.key("admin", "first")
        yield server


@pytest.mark.promise("X10")
@pytest.mark.parametrize("role", [None, *ROLES])
def test_no_role_gets_what_it_may_not_have(guarded: Serving, role: Role | None) -> None:
    """Schemathesis with a key of every role, and without one."""
    headers = {"Authorization": f"Bearer {guarded.key(role)}"} if role else {}
    known = existing(guarded, {"Authorization": f"Bearer {guarded.key('admin')}"})
    schema = loaded(guarded)
    outcomes: dict[str, set[int]] = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        raw = schema.raw_schema["paths"][operation.path][operation.method]
        needs: Role | None = raw.get("x-role")
        refusal = None if needs is None else 401 if role is None else 403
        if refusal == 403 and role is not None and ROLES.index(role) >= ROLES.index(needs or "read"):
            refusal = None
        statuses: set[int] = outcomes.setdefault(f"{operation.method} {operation.path}", set())
        shows = role is not None and ROLES.index(role) >= ROLES.index("read:payload")

        def check(case: Any, refusal: int | None = refusal, seen: set[int] = statuses, shows: bool = shows) -> None:
            if refusal is None:
                answer = case.call_and_validate(headers=headers)
                is_sign_in = (case.method.upper(), case.path) == ("POST", "/v1/session")
                assert answer.status_code == 401 if is_sign_in else answer.status_code not in (401, 403), answer.text
            else:
                answer = case.call(headers=headers)
                assert answer.status_code == refusal, answer.text
                assert answer.headers["content-type"] == ["application/problem+json"]
            seen.add(answer.status_code)
            assert shows or CANARY not in answer.text

        attempt(operation, schemathesis.GenerationMode.POSITIVE, known, check, ROLE_EXAMPLES)
    assert all(outcomes.values())
    allowed = [name for name, seen in outcomes.items() if not seen <= {401, 403}]
    assert len(allowed) == {None: 5, "read": 28, "read:payload": 29, "operate": 56, "admin": 62}[role]


def test_the_document_explains_itself(server: Serving) -> None:
    document = server.client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (method, path)
            for status, answer in operation["responses"].items():
                assert answer["description"], (method, path, status)
                if int(status) >= 400:
                    assert [*answer["content"]] == ["application/problem+json"], (method, path, status)
            if "requestBody" in operation:
                content = operation["requestBody"]["content"]["application/json"]
                schema = {**content["schema"], "components": document["components"]}
                jsonschema.validate(content["example"], schema)
    start = document["components"]["schemas"]["StartRequest"]["properties"]
    assert start["priority"]["description"] == "Flows with a higher priority are claimed first."
    limit = [
        one for one in document["paths"]["/v1/flows/{flow_id}/events"]["get"]["parameters"] if one["name"] == "limit"
    ]
    assert (
        limit[0]["description"]
        == "The number of lines in a page, each with all its events; it does not apply to a stream."
    )


def can_be_wrong(operation: Any) -> bool:
    """Every text is good for a path, and any JSON for a completion."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return bool(body) or any(one["in"] == "query" for one in operation.get("parameters", ()))


def existing(server: Serving, headers: dict[str, str] | None = None) -> dict[str, list[str]]:
    """Names for paths that are there."""
    flows = [flow["id"] for flow in server.client.get("/v1/flows", headers=headers).json()["flows"]]
    return {"flow_id": flows, "name": ["reserve"], "step": ["srv_pay", "srv_flaky"], "queue": ["mail"]}


def attempt(
    operation: Any,
    mode: Any,
    known: dict[str, list[str]],
    check: Callable[[Any], None] = lambda case: case.call_and_validate(),
    examples: int = EXAMPLES,
) -> None:
    @seed(17)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), which=st.integers(0, 99))
    def try_out(case: Any, which: int) -> None:
        names = {name: known[name] for name in case.path_parameters or () if name in known}
        # Most that exist, now and then something that does not.
        if which % 4:
            case.path_parameters |= {name: values[which % len(values)] for name, values in names.items()}
        check(case)

    try_out()
