"""Policies over HTTP: waits, findings and conversions, and where a text is wrong."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.server.serving import Serving, problem, serving

from redrive.notation.catalogue import WRITABLE


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving(worker=False) as server:
        yield server


def read(server: Serving, text: str, **more: Any) -> Any:
    answer = server.client.post("/v1/policies", json={"text": text, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_waits_are_those_that_the_engine_would_wait(server: Serving) -> None:
    found = read(
        server,
        "attempts: 4\nbackoff: exponential 1s\njitter: full\ndeadline: none\nattempt_timeout: 10s",
        notation="native",
    )
    assert found["notation"] == "native"
    assert [(one["attempt"], one["low"], one["high"]) for one in found["waits"]] == [
        (1, None, None),
        (2, 0.0, 1.0),
        (3, 0.0, 2.0),
        (4, 0.0, 4.0),
    ]
    # Attempts that are cut take 10 s, then 15 s.
    assert [one["latest"] for one in found["waits"]] == [0.0, 11.0, 28.0, 47.0]
    assert found["total"]["latest"] == 62.0
    assert (found["attempts"], found["more"], found["ends"]) == (4, False, "exhausted")
    examples = [one["example"] for one in found["waits"]]
    assert examples == sorted(examples)
    assert 0 < examples[1] < 1
    assert found == read(
        server,
        "attempts: 4\nbackoff: exponential 1s\njitter: full\ndeadline: none\nattempt_timeout: 10s",
        notation="native",
    )


def test_what_never_ends_has_no_total_and_a_first_page(server: Serving) -> None:
    found = read(server, "attempts: unlimited\ndeadline: none\nbackoff: constant 1s\njitter: none", attempts=3)
    assert found["attempts"] is None
    assert found["total"] == {"earliest": None, "latest": None}
    assert [one["earliest"] for one in found["waits"]] == [0.0, 1.0, 2.0]
    assert found["more"] is True
    assert found["ends"] == "unlimited"


def test_findings_say_where_and_what_to_write_instead(server: Serving) -> None:
    found = read(server, '{"max_retries": 3,\n "backoff": 1000}')
    jitter = next(one for one in found["findings"] if one["rule"] == "RD001")
    assert jitter["severity"] == "warning"
    assert jitter["message"]
    assert jitter["instead"]
    assert jitter["where"].endswith(f"line {jitter['line']}")


def test_a_policy_is_written_in_every_notation_and_losses_are_named(server: Serving) -> None:
    found = read(server, "@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))")
    assert found["notation"] == "tenacity"
    assert set(found["conversions"]) == set(WRITABLE)
    assert "attempts: 5" in found["conversions"]["native"]
    assert found["policy"].startswith("up to 5 attempts")
    lossy = read(server, "attempts: 3\ndeadline: 1m\nretry_on: [KeyError]", notation="native")
    assert lossy["lost"]["work_config"]
    assert "native" not in lossy["lost"]


def test_each_rule_is_a_case_and_one_failure_can_be_asked_for(server: Serving) -> None:
    text = "[RateLimitError -> retry: 10, backoff: 1m] [ConnectionError -> retry: 2, backoff: 1s]"
    found = read(server, text)
    assert [(one["failure"], one["attempts"]) for one in found["cases"]] == [
        ("RateLimitError", 11),
        ("ConnectionError", 3),
    ]
    assert read(server, text, failure="ConnectionError")["attempts"] == 3
    assert read(server, text, failure="status:404")["attempts"] == 1
    refused = server.client.post("/v1/policies", json={"text": text, "failure": "status:9999"})
    assert problem(refused, 422)["pointer"] == "/failure"


def test_a_wrong_text_is_refused_with_its_place(server: Serving) -> None:
    refused = server.client.post("/v1/policies", json={"text": "attempts: 3\nbackof: 3s", "notation": "native"})
    said = problem(refused, 422)
    assert (said["pointer"], said["line"]) == ("/text", 2)
    assert "did you mean 'backoff'" in said["detail"]
    unknown = server.client.post("/v1/policies", json={"text": "attempts: 3", "notation": "natve"})
    said = problem(unknown, 422)
    assert said["pointer"] == "/notation"
    assert "did you mean 'native'" in said["detail"]


@pytest.mark.parametrize("text", ["", "[", "a: &a [*a, *a]", "\x00", "{" * 5000, "!!python/object:os.system x", "😀"])
def test_nonsense_is_refused(server: Serving, text: str) -> None:
    answer = server.client.post("/v1/policies", json={"text": text})
    problem(answer, 400 if not text else 422)


def test_the_text_is_bounded_and_a_policy_with_very_many_attempts_is_read_soon(server: Serving) -> None:
    problem(server.client.post("/v1/policies", json={"text": "#" * 65537}), 400)
    rules = "".join(f"- {{match: [Error{n}], retries: 100000, backoff: constant 1ms}}\n" for n in range(100))
    found = read(server, f"attempts: unlimited\ndeadline: none\nrules:\n{rules}", notation="native")
    assert len(found["cases"]) == 20
    assert len(found["waits"]) == 50
