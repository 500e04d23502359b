"""Requests with very many values or problems are refused before they cost more than a look."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.server import shop
from tests.server.serving import Serving, problem, serving

from redrive.flows.values.json_limits import MOST_VALUES

JSON = {"content-type": "application/json"}
assert shop  # its actions are registered


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with serving() as one:
        yield one


@pytest.mark.promise("X8")
@pytest.mark.parametrize("piece", ["[]", "{}", "1", '"a"', "[" * 400 + "]" * 400])
def test_a_body_with_too_many_values_is_refused_and_names_the_limit(server: Serving, piece: str) -> None:
    count = min(8_000_000 // (len(piece) + 1), 2 * MOST_VALUES)
    body = '{"action":"srv_pay","inputs":{"cents":[' + ",".join([piece] * count) + "]}}"
    said = problem(server.client.post("/v1/flows", content=body, headers=JSON), 413)
    assert f"{MOST_VALUES:,} values" in said["detail"]


@pytest.mark.promise("X8")
def test_one_large_text_is_no_problem_of_numbers(server: Serving) -> None:
    body = json.dumps({"action": "srv_refuse", "inputs": {"why": '["", {' * 1_000_000}}).encode()
    assert server.client.post("/v1/flows", content=body, headers=JSON).status_code == 201


@pytest.mark.promise("X7")
@pytest.mark.parametrize("place", ["step", "input", "statuses"])
def test_a_hundred_thousand_unknown_keys_are_one_problem(server: Serving, place: str) -> None:
    many = {f"k{n}": n for n in range(100_000)}
    step: dict[str, Any] = {"name": "held", "endpoint": "https://example.com/x"}
    step |= many if place == "step" else {"inputs": {"a": many}} if place == "input" else {"statuses": many}
    said = problem(server.client.post("/v1/steps", json=step), 422)
    assert "keys are too many" in said["detail"]
    assert len(said.get("problems", [])) <= 1
