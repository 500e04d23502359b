"""Traces of HTTP steps that are accepted now and completed later, perhaps in another worker."""

import pytest
from opentelemetry.trace import SpanKind
from tests.end_to_end.scene import Handlers, called, logged, open_app, run, start
from tests.telemetry.spans import id_of, said, trace_of, traced

from redrive.flows.events import AttemptAccepted

DONE = b'{"success": true, "outputs": {"parcel": "p1"}}'
AWAY = b'{"status": 503, "title": "Down for now"}'
STEP = {
    "mode": "async",
    "timeout": "20s",
    "outputs": {"parcel": "string"},
    "work_config": {"max_retries": 1, "backoff": 10},
}


@pytest.mark.promise("L7")
def test_an_accepted_attempt_is_one_span_under_the_id_that_its_handler_knows(address: str, handlers: Handlers) -> None:
    async def story() -> list[str]:
        async with open_app(address) as app:
            graph = {"steps": {"pack": {"endpoint": handlers.at("accept"), **STEP}}}
            handle = await start(app, graph)
            await logged(app, handle.id, AttemptAccepted)
            [first] = await called(handlers, handle.id)
        async with open_app(address) as app:
            assert await app.report_outcome(first.token, AWAY, "application/problem+json") == "accepted"
            _, second = await called(handlers, handle.id, 2)
            await logged(app, handle.id, AttemptAccepted, 2)
        async with open_app(address) as app:
            assert await app.report_outcome(second.token, DONE) == "accepted"
            await app.handle(handle.id).result(timeout=30)
        return [first.headers["traceparent"], second.headers["traceparent"]]

    with traced() as collected:
        seen = run(story())
    collected.check()
    attempts = collected.named("attempt pack")
    assert seen == [f"00-{trace_of(one):032x}-{id_of(one):016x}-01" for one in attempts]
    assert said(attempts, "outcome") == ["failed", "succeeded"]
    assert {one.kind for one in attempts} == {SpanKind.CLIENT}
    assert len({trace_of(span) for span in collected.spans}) == 1
