"""Durable work as OpenTelemetry spans: one trace a flow, whichever workers and handlers carry it out."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode
from tests.end_to_end.scene import open_app as open_http_app
from tests.telemetry.spans import Traced, id_of, linked, parent_of, said, trace_of, traced
from tests.telemetry.traced_worker import Order as TracedOrder

import redrive
from redrive import RetryPolicy, Snooze, Workflow, action, current_attempt, workflow
from redrive.assembly import open as open_app
from redrive.integrations.opentelemetry import export
from redrive.testing import flow_app

ROOT = Path(__file__).parents[2]
SECRET = "hunter2-the-password"
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
failing: list[int] = []


@action(name="spans.charge", retry=RetryPolicy(attempts=3, backoff_seconds=1))
async def charge(card: str) -> str:
    trace.get_current_span().set_attribute("shop.till", 7)
    if len(failing) < 2:
        failing.append(1)
        raise ConnectionError(f"cannot charge {card}")
    return card


@action(name="spans.bill", retry=RetryPolicy(attempts=2, backoff_seconds=1))
async def bill() -> str:
    if not failing:
        raise ConnectionError("no answer")
    return "billed"


@workflow(name="spans.Order")
class Order(Workflow):
    async def run(self, card: str) -> str:
        await asyncio.sleep(60)
        return await charge(card)


@workflow(name="spans.Bill")
class Bill(Workflow):
    async def run(self) -> str:
        return await bill()


async def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not happened() and time.monotonic() < end:  # noqa: ASYNC110 - another process does it
        await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _nothing_failed_yet() -> None:
    failing.clear()


@pytest.mark.promise("L7")
def test_flow_items_and_attempts_are_spans_of_the_callers_trace_with_their_waits() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with collected.provider.get_tracer("shop").start_as_current_span("request"):
                handle = await app.start(Order.call(SECRET))
            await app.outcome(handle)

    with traced() as collected:
        asyncio.run(story())
    collected.check()
    [request], [flow] = collected.named("request"), collected.named("flow workflow:spans.Order")
    [item] = collected.named("item spans.charge")
    attempts = collected.named("attempt spans.charge")
    assert {trace_of(span) for span in collected.spans} == {trace_of(request)}
    assert [parent_of(flow), parent_of(item)] == [id_of(request), id_of(flow)]
    assert [parent_of(one) for one in attempts] == [id_of(item)] * 3
    assert said(attempts, "attempt") == [1, 2, 3]
    assert said(attempts, "outcome") == [
        "failed",
        "failed",
        "succeeded",
    ]
    assert [one.attributes["shop.till"] for one in attempts if one.attributes] == [7, 7, 7]
    assert [one.status.status_code for one in attempts] == [StatusCode.ERROR, StatusCode.ERROR, StatusCode.UNSET]
    # Each attempt is linked to the one before.
    assert [linked(one) for one in attempts[1:]] == [[id_of(one)] for one in attempts[:2]]
    assert ([one.name for one in flow.events], said(flow.events, "wait.seconds")) == (["timer"], [60])
    assert [one.name for one in item.events] == ["retry scheduled", "retry scheduled"]
    assert "the connection failed" in str(said(item.events, "wait.reason")[0])
    # Neither arguments nor results nor messages of errors.
    assert not [span.name for span in collected.spans if SECRET in span.to_json()]


def test_failed_items_and_flows_name_the_type_of_their_error_and_how_they_gave_up() -> None:
    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Bill.call()))

    with traced() as collected:
        asyncio.run(story())
    failed = [*collected.named("item spans.bill"), *collected.named("flow workflow:spans.Bill")]
    assert [(one.attributes or {})["error.type"] for one in failed] == ["ConnectionError", "ConnectionError"]
    assert said(failed, "failure.kind") == ["exhausted", "exhausted"]
    assert [one.status.description for one in failed] == ["ConnectionError", "ConnectionError"]


def test_a_flow_started_outside_of_any_trace_has_one_of_its_own() -> None:
    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Bill.call()))

    failing.append(1)
    with traced() as collected:
        asyncio.run(story())
    collected.check()
    [flow] = collected.named("flow workflow:spans.Bill")
    assert parent_of(flow) is None
    assert {trace_of(span) for span in collected.spans} == {trace_of(flow)}


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, TraceIdRatioBased(0.0)])
def test_what_the_sampler_drops_is_dropped_as_a_whole(sampler: Any) -> None:
    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Bill.call()))

    failing.append(1)
    with traced(sampler) as collected:
        asyncio.run(story())
    assert not collected.spans


@pytest.mark.promise("L7")
def test_a_redriven_flow_goes_on_in_its_trace_under_a_span_of_its_own() -> None:
    async def story() -> None:
        async with flow_app() as app:
            handle = await app.start(Bill.call(), traceparent=CALLER)
            await app.outcome(handle)
            failing.append(1)
            await app.redrive(handle.id, by="ann", why="the bank is back")
            await app.until(lambda: len(app.witness.executed) == 3)
            await app.outcome(handle)

    with traced() as collected:
        asyncio.run(story())
    first, second = collected.named("flow workflow:spans.Bill")
    assert f"{trace_of(first):032x}" == f"{trace_of(second):032x}" == CALLER[3:35]
    assert f"{parent_of(first):016x}" == f"{parent_of(second):016x}" == CALLER[36:52]
    assert linked(second) == [id_of(first)]
    assert said((first, second), "outcome") == [
        "failed",
        "completed",
    ]
    last = collected.named("attempt spans.bill")[-1]
    [item] = [one for one in collected.named("item spans.bill") if parent_of(one) == id_of(second)]
    assert parent_of(last) == id_of(item)
    assert len({id_of(span) for span in collected.spans}) == len(collected.spans)


@pytest.mark.promise("L7")
def test_a_worker_that_dies_leaves_no_hole_in_the_trace(tmp_path: Path) -> None:
    """Its lost attempt is written by the worker that takes over, under the id that the attempt's own spans name."""
    address, began = f"sqlite:///{tmp_path}/app.db", tmp_path / "began"
    files = [tmp_path / "one", tmp_path / "two"]

    def start(spans: Path) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.telemetry.traced_worker", address, str(spans), str(began)]
        return subprocess.Popen(words, cwd=ROOT)  # noqa: S603 - our own worker

    async def story() -> None:
        async with open_app(address, worker=False) as app:
            handle = await app.start(TracedOrder.call(5), traceparent=CALLER)
            first = start(files[0])
            try:
                await until(began.exists)
            finally:
                first.kill()
                first.wait()
            second = start(files[1])
            try:
                assert await handle.result(timeout=60) == 5
            finally:
                second.terminate()
                second.wait(30)

    asyncio.run(story())
    one, two = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    by_id = {span["context"]["span_id"]: span for span in one + two}
    assert len(by_id) == len(one + two)
    assert {span["context"]["trace_id"] for span in by_id.values()} == {f"0x{CALLER[3:35]}"}
    assert [span["name"] for span in one] == ["ask the bank"]
    [flow] = [span for span in two if span["name"] == "flow workflow:traced.Order"]
    assert flow["parent_id"] == f"0x{CALLER[36:52]}"
    lost, done = sorted(
        (span for span in two if span["name"] == "attempt traced.charge"), key=lambda span: str(span["start_time"])
    )
    assert (lost["attributes"]["redrive.outcome"], done["attributes"]["redrive.outcome"]) == ("lost", "succeeded")
    assert one[0]["parent_id"] == lost["context"]["span_id"]
    assert [link["context"]["span_id"] for link in done["links"]] == [lost["context"]["span_id"]]
    assert all(span["parent_id"] in by_id for span in by_id.values() if span is not flow)


@pytest.mark.promise("L7")
def test_the_handler_of_an_http_step_continues_the_trace() -> None:
    """The span of the attempt is the parent of what the handler does, also for each retry."""
    seen: list[str] = []

    async def pay(request: web.Request) -> web.Response:
        seen.append(request.headers["traceparent"])
        with collected.provider.get_tracer("payments").start_as_current_span("pay", propagate.extract(request.headers)):
            return web.json_response({"paid": True}, status=503 if len(seen) == 1 else 200)

    async def story() -> int:
        application = web.Application()
        application.router.add_post("/pay", pay)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port: int = runner.addresses[0][1]
        config = {"max_retries": 2, "backoff": 10}
        step = {
            "endpoint": f"http://127.0.0.1:{port}/pay?shop=till-seven",
            "outputs": {"paid": "boolean"},
            "work_config": config,
        }
        graph = redrive.read_graph({"graph": "spans.shop", "steps": {"pay": step}})
        async with open_http_app("memory://") as app:
            await (await app.start(graph.call({}), traceparent=CALLER)).result(timeout=30)
        await runner.cleanup()
        return port

    with traced() as collected:
        port = asyncio.run(story())
    attempts, handled = collected.named("attempt pay"), collected.named("pay")
    assert len(attempts) == 2
    assert [one.kind for one in attempts] == [SpanKind.CLIENT, SpanKind.CLIENT]
    for span, status in zip(attempts, (503, 200), strict=True):
        given = span.attributes or {}
        assert (given["http.request.method"], given["server.address"]) == ("POST", "127.0.0.1")
        assert (given["server.port"], given["http.response.status_code"]) == (port, status)
    assert "till-seven" not in "".join(span.to_json() for span in collected.spans)
    assert seen == [f"00-{trace_of(one):032x}-{id_of(one):016x}-01" for one in attempts]
    assert [parent_of(one) for one in handled] == [id_of(one) for one in attempts]
    assert {f"{trace_of(span):032x}" for span in collected.spans} == {CALLER[3:35]}


@action(name="spans.in_thread")
def in_thread() -> str | None:
    return _context_here()


@action(name="spans.in_process", process=True)
def in_process() -> str | None:
    return current_attempt().traceparent


@action(name="spans.in_loop")
async def in_loop() -> str | None:
    await asyncio.sleep(0)
    return _context_here()


def _context_here() -> str | None:
    current = trace.get_current_span().get_span_context()
    return f"00-{current.trace_id:032x}-{current.span_id:016x}-{current.trace_flags:02x}" if current.is_valid else None


@pytest.mark.parametrize("work", [in_thread, in_process, in_loop], ids=["thread", "process", "loop"])
def test_an_action_runs_in_the_span_of_its_attempt_wherever_it_runs(work: Any) -> None:
    async def story() -> Any:
        async with open_app("memory://") as app:
            return await (await app.start(work(), traceparent=CALLER)).result(timeout=60)

    with traced() as collected:
        found = asyncio.run(story())
    [attempt] = [span for span in collected.spans if span.name.startswith("attempt")]
    assert found == f"00-{trace_of(attempt):032x}-{id_of(attempt):016x}-01"


def test_without_an_exporter_nothing_is_traced() -> None:
    async def story() -> Any:
        async with open_app("memory://") as app:
            return await (await app.start(in_loop())).result(timeout=60)

    assert asyncio.run(story()) is None


def test_a_trace_context_that_is_none_is_refused_with_what_to_write() -> None:
    async def story() -> None:
        async with flow_app() as app:
            await app.start(Bill.call(), traceparent="yesterday")

    with pytest.raises(ValueError, match="traceparent: 'yesterday' is not a W3C trace context; use text such as 00-"):
        asyncio.run(story())


def test_cancelled_snoozed_and_paused_work_is_told_too() -> None:
    @action(name="spans.not_yet")
    async def not_yet() -> None:
        if len(failing) < 1:
            failing.append(1)
            raise Snooze(30, "the shop is closed")
        await asyncio.sleep(10_000)

    async def story() -> None:
        async with flow_app() as app:
            handle = await app.start(not_yet())
            await app.until(lambda: len(app.witness.executed) == 2)
            await handle.cancel(by="ann", why="too late")
            await app.outcome(handle)

    with traced() as collected:
        asyncio.run(story())
    collected.check()
    attempts, [item], [flow] = (
        collected.named("attempt spans.not_yet"),
        collected.named("item spans.not_yet"),
        collected.named("flow action:spans.not_yet"),
    )
    assert said(attempts, "outcome") == ["returned", "cancelled"]
    assert [one.name for one in item.events] == ["snoozed"]
    assert said(item.events, "wait.reason") == ["the shop is closed"]
    assert said((item, flow), "outcome") == ["cancelled", "cancelled"]
    assert "cancel requested" in [one.name for one in flow.events]


def test_what_an_open_circuit_holds_back_is_an_event_with_its_reason() -> None:
    @action(name="spans.refuse", retry=RetryPolicy(attempts=7, backoff_seconds=1))
    async def refuse() -> None:
        raise ConnectionError("no answer")

    async def story() -> None:
        async with flow_app() as app:
            graph = redrive.Graph("spans.bank").step("refuse", refuse, dependency="spans bank")
            await app.outcome(await app.start(graph.call({})))

    with traced() as collected:
        asyncio.run(story())
    collected.check()
    [item] = collected.named("item refuse")
    [held] = [one for one in item.events if one.name == "deferred"][:1]
    assert "spans bank" in str(said([held], "wait.reason")[0])
    assert len(collected.named("attempt refuse")) == 7


def test_with_another_implementation_of_opentelemetry_spans_are_in_the_same_trace() -> None:
    """It may not let ids be computed: then only the tree is lost."""

    class Tracer(trace.Tracer):
        def start_span(self, *given: Any, **settings: Any) -> trace.Span:
            return tracer.start_span(*given, **settings)

        start_as_current_span: Any = None

    class Provider(trace.TracerProvider):
        def get_tracer(self, *names: Any, **settings: Any) -> trace.Tracer:
            return Tracer()

    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Bill.call()))

    failing.append(1)
    collected = Traced()
    tracer = collected.provider.get_tracer("another")
    stop = export(Provider())
    try:
        asyncio.run(story())
    finally:
        stop()
    assert {span.name for span in collected.spans} == {
        "flow workflow:spans.Bill",
        "item spans.bill",
        "attempt spans.bill",
    }
    assert len({trace_of(span) for span in collected.spans}) == 1


def test_a_missing_extra_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None; import redrive.integrations.opentelemetry"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own code
    assert "OpenTelemetry needs the extra 'tracing': pip install 'redrive[tracing]'" in finished.stderr


def test_flows_that_wait_to_begin_say_so() -> None:
    async def story() -> None:
        async with flow_app() as app:
            await app.outcome(await app.start(Bill.call(), delay=30))

    failing.append(1)
    with traced() as collected:
        asyncio.run(story())
    [flow] = collected.named("flow workflow:spans.Bill")
    assert flow.events[0].name == "delayed start"
    assert said(flow.events[:1], "wait.seconds") == [30]
