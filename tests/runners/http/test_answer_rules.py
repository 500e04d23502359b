"""Every answer means something: outputs, accepted, or a failure that is classified."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import Permanent
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.http.answers import Accepted, Answer, outcome_of
from redrive.runners.http.errors import HttpStepError, WorkFailed

SYNC = HttpHandler(endpoint="http://handler/")
ASYNC = HttpHandler(endpoint="http://handler/", mode="async")

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
statuses = st.integers(200, 599)


def read(status: int, body: bytes, handler: HttpHandler = SYNC) -> Any:
    answer = outcome_of(Answer(status=status, headers={}, body=body), handler, 1000, 0.0)
    return answer if isinstance(answer, Accepted) else json.loads(answer)


@given(statuses, st.binary(max_size=60) | json_values.map(msgspec.json.encode), st.sampled_from([SYNC, ASYNC]))
def test_no_answer_breaks_the_reading(status: int, body: bytes, handler: HttpHandler) -> None:
    try:
        read(status, body, handler)
    except (HttpStepError, Permanent):
        return
    assert 200 <= status <= 299


@pytest.mark.promise("A5")
@given(st.sampled_from([200, 201, 203]), json_values)
def test_outputs_come_back_as_they_were_sent(status: int, outputs: Any) -> None:
    envelope = msgspec.json.encode({"success": True, "outputs": outputs})
    assert read(status, envelope) == outputs
    if not isinstance(outputs, dict) or not isinstance(outputs.get("success"), bool):
        assert read(status, msgspec.json.encode(outputs)) == outputs


@pytest.mark.promise("A4")
@given(statuses, json_values, st.sampled_from([SYNC, ASYNC]))
def test_success_false_is_a_failure_for_good(status: int, error: Any, handler: HttpHandler) -> None:
    with pytest.raises(WorkFailed) as failed:
        read(status, msgspec.json.encode({"success": False, "error": error}), handler)
    assert failed.value.status == status


@pytest.mark.promise("A3", "A6")
@given(st.integers(400, 599), json_values.filter(lambda value: not isinstance(value, dict)))
def test_a_status_decides_where_the_body_does_not(status: int, body: Any) -> None:
    with pytest.raises(HttpStepError) as failed:
        read(status, msgspec.json.encode(body))
    transient = status >= 500 or status in (408, 425, 429)
    assert failed.value.failure.category == ("transient" if transient else "permanent")


def test_outputs_nested_too_deeply_are_refused() -> None:
    with pytest.raises(Permanent, match="not JSON"):
        read(200, b"[" * 100_000 + b"]" * 100_000)
    with pytest.raises(Permanent, match="nested deeper than the 500 levels"):
        read(200, b"[" * 600 + b"]" * 600)
