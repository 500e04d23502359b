"""The same events as Prometheus metrics."""

from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

import redrive
from redrive.integrations.httpx import RetryTransport
from redrive.integrations.prometheus import export
from redrive.telemetry.events import FlowParked
from redrive.telemetry.stream import emit
from redrive.testing import virtual_clock


@pytest.mark.promise("P13")
def test_retries_and_the_state_of_circuits_are_metrics() -> None:
    registry = CollectorRegistry()
    stop = export(registry)
    calls: list[int] = []

    @redrive.retry(operation="pay", dependency="metrics-test", attempts=6)
    def pay() -> None:
        calls.append(1)
        if len(calls) != 7:
            raise ConnectionError

    try:
        with virtual_clock() as clock:
            with pytest.raises(ConnectionError):
                pay()
            with pytest.raises(redrive.CircuitOpenError):
                pay()
            assert (
                registry.get_sample_value("redrive_circuit_state", {"dependency": "metrics-test", "phase": "open"}) == 1
            )
            clock.advance(31)
            calls.append(1)
            pay()
        emit(FlowParked(flow_id="f1", definition="workflow:Order", problem="line 1 of the log says otherwise"))
        _check(registry)
    finally:
        stop()
    # What was stopped can be started again.
    export(registry)()


def _check(registry: CollectorRegistry) -> None:
    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("redrive_retries_total", operation="pay", error_type="ConnectionError") == 4
    assert value("redrive_given_up_calls_total", operation="pay", kind="circuit_open") == 1
    assert value("redrive_refused_calls_total", dependency="metrics-test") == 1
    assert value("redrive_retry_wait_seconds_count", operation="pay") == 4
    assert value("redrive_circuit_state", dependency="metrics-test", phase="closed") == 1
    assert value("redrive_circuit_state", dependency="metrics-test", phase="open") == 0
    assert value("redrive_circuit_recovery_rate", dependency="metrics-test") == 5
    assert value("redrive_parked_flows_total", definition="workflow:Order") == 1


def test_ids_in_paths_make_no_metrics_of_their_own() -> None:
    registry = CollectorRegistry()
    stop = export(registry)
    events: list[Any] = []
    answers = iter([503, 503, 503, 200] * 3)
    inner = httpx.MockTransport(lambda request: httpx.Response(next(answers)))
    try:
        with (
            virtual_clock(),
            httpx.Client(transport=RetryTransport(attempts=2, on_event=events.append, transport=inner)) as client,
        ):
            for order in range(6):
                client.get(f"http://api.example.com/orders/{order}")
    finally:
        seen = {sample.labels.get("operation") for metric in registry.collect() for sample in metric.samples}
        stop()
    assert seen == {"GET api.example.com"}
    assert {event.operation for event in events} == {f"GET api.example.com/orders/{order}" for order in range(6)}
