"""How HTTP steps fail, and what their flows make of it: the log, the calls, the tokens and the waits."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from tests.end_to_end.scene import ROUNDING, Ended, Handlers, ended, open_app, run, start_step

from redrive.flows.events import FlowFailed, ItemCompleted
from redrive.policies.decision import GiveUp, RetryAt

QUICK = {"max_retries": 3, "backoff": 20, "max_backoff": 30, "backoff_type": "exponential"}
ONE_RETRY = {"max_retries": 1, "backoff": 10}
SHORT = {"timeout": "900ms"}


class Case(NamedTuple):
    how: str
    """What the handler does, or an address where there is none."""
    told: Mapping[str, object] = {}
    step: Mapping[str, Any] = {}
    status: int | None = None
    """The HTTP status that the log has."""


# The handler fails twice, and would then succeed.
RETRIED = {
    "reset": Case("reset"),
    "closed without an answer": Case("close"),
    "hangs past the timeout": Case("hang", step=SHORT),
    "a body cut half way": Case("cut"),
    "a chunked body cut half way": Case("cut-chunked"),
    "a body that drips past the timeout": Case("drip", step=SHORT),
    "garbage": Case("garbage"),
    "408": Case("408", status=408),
    "425": Case("425", status=425),
    "429": Case("429", status=429),
    "500": Case("500", status=500),
    "502": Case("502", status=502),
    "503": Case("503", status=503),
    "599": Case("599", status=599),
    "404 that the step calls transient": Case("404", step={"statuses": {404: "transient"}}, status=404),
    "409 as a lock conflict": Case("409", step={"conflict": "reread"}, status=409),
}
PERMANENT = {
    "400": Case("400", status=400),
    "401": Case("401", status=401),
    "404": Case("404", status=404),
    "409": Case("409", status=409),
    "422": Case("problem", {"status": 422}, status=422),
    "a redirect": Case("redirect", status=307),
    "success: false": Case("failed", status=200),
    "success: false with 500": Case("failed", {"status": 500}, status=500),
    "success: false with 429": Case("failed", {"status": 429}, status=429),
    "not JSON": Case("not-json", status=200),
    "429 that the step calls permanent": Case("429", step={"statuses": {429: "permanent"}}, status=429),
    "503 that the step calls permanent": Case("503", step={"statuses": {503: "permanent"}}, status=503),
}
GOOD: dict[str, tuple[Case, Any]] = {
    "plain outputs": (Case("ok", {"outputs": '{"a": 1}'}), {"work": {"a": 1}}),
    "success: true": (Case("ok", {"outputs": '{"success": true, "outputs": {"a": 1}}'}), {"work": {"a": 1}}),
    "201": (Case("201"), {"work": {}}),
    "nothing": (Case("empty"), {"work": None}),
}
UNREACHABLE = {"refused": "", "no such host": "http://no-such-host.invalid/work"}
WAITS = {
    # 5 retries, each kind of backoff: what it says, and what comes of it.
    "fixed": ({"backoff": 12, "max_backoff": 100, "backoff_type": "fixed"}, [12, 12, 12, 12, 12]),
    "linear": ({"backoff": 12, "max_backoff": 30, "backoff_type": "linear"}, [12, 24, 30, 30, 30]),
    "exponential": ({"backoff": 8, "max_backoff": 50, "backoff_type": "exponential"}, [8, 16, 32, 50, 50]),
    "a base above the cap": ({"backoff": 500, "max_backoff": 20, "backoff_type": "exponential"}, [20] * 5),
}


@pytest.fixture(scope="module")
def flows(address: str, handlers: Handlers) -> dict[str, Ended]:
    """All cases, side by side."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        refused = f"http://127.0.0.1:{nobody.getsockname()[1]}/work"
        return run(_run_all(address, handlers, refused))


async def _run_all(address: str, handlers: Handlers, refused: str) -> dict[str, Ended]:
    async with open_app(address) as app:

        async def case(endpoint: str, **step: Any) -> Ended:
            return await ended(app, handlers, await start_step(app, endpoint, **step))

        def failing(one: Case, **told: object) -> Any:
            return case(handlers.at(one.how, **{**one.told, **told}), **{"work_config": QUICK, **one.step})

        begun = {f"retried {name}": failing(one, times=2) for name, one in RETRIED.items()}
        begun |= {f"spent {name}": failing(one) for name, one in RETRIED.items() if one.status == 500}
        begun |= {f"permanent {name}": failing(one) for name, one in PERMANENT.items()}
        begun |= {f"good {name}": failing(one) for name, (one, _) in GOOD.items()}
        begun |= {f"unreachable {name}": case(at or refused, work_config=ONE_RETRY) for name, at in UNREACHABLE.items()}
        begun |= {
            f"waits {name}": case(handlers.at("500", times=5), work_config={"max_retries": 5, **config})
            for name, (config, _) in WAITS.items()
        }
        begun["no retries"] = case(handlers.at("500"), work_config={"max_retries": 0})
        begun["unlimited"] = case(
            handlers.at("500", times=12), work_config={"max_retries": -1, "backoff": 2, "max_backoff": 4}
        )
        begun["retry after"] = case(handlers.at("503", after=1, times=1), work_config=QUICK)
        begun["retry after too long"] = case(handlers.at("429", after=3600), work_config=QUICK)
        return dict(zip(begun, await asyncio.gather(*begun.values()), strict=True))


@pytest.mark.promise("A1", "A2", "A3", "A6", "A9", "A12")
@pytest.mark.parametrize("name", RETRIED)
def test_a_failure_that_may_pass_is_retried_until_it_has(flows: dict[str, Ended], name: str) -> None:
    flow = flows[f"retried {name}"]
    assert flow.status == "completed"
    assert flow.words == [
        *("ItemStarted", "AttemptFailed", "AttemptStarted", "AttemptFailed", "AttemptStarted"),
        *("ItemCompleted", "FlowCompleted"),
    ]
    for (failed_at, failure), wait, (started_at, started) in zip(
        flow.failures(), (0.02, 0.03), flow.starts(), strict=True
    ):
        assert failure.failure.category == "transient"
        assert failure.failure.status == RETRIED[name].status
        assert isinstance(failure.decision, RetryAt)
        assert failure.decision.when == pytest.approx(failed_at + wait, abs=ROUNDING)
        assert started_at >= failure.decision.when - ROUNDING
        assert started.attempt == failure.attempt + 1
    assert [call.attempt for call in flow.calls] == [1, 2, 3]
    # One receipt for the work, however often it is tried; an idempotency key is what handlers of all kinds know.
    assert {(call.receipt, call.headers["idempotency-key"]) for call in flow.calls} == {(f"{flow.id}.1",) * 2}
    assert [call.delivery for call in flow.calls] == flow.deliveries()
    assert len(set(flow.deliveries())) == 3


@pytest.mark.promise("A2", "A9")
@pytest.mark.parametrize("name", UNREACHABLE)
def test_a_handler_that_cannot_be_reached_is_tried_again(flows: dict[str, Ended], name: str) -> None:
    flow = flows[f"unreachable {name}"]
    assert flow.words == [
        "ItemStarted",
        "AttemptFailed",
        "AttemptStarted",
        "AttemptFailed",
        "StepSettled",
        "FlowFailed",
    ]
    assert [failure.failure.category for _, failure in flow.failures()] == ["transient", "transient"]
    # Nothing was sent, which whoever must not do things twice wants to know.
    assert all(failure.failure.not_sent for _, failure in flow.failures())
    assert isinstance(flow.failures()[1][1].decision, GiveUp)


@pytest.mark.promise("A3", "A7")
def test_when_the_retries_are_spent_the_flow_fails(flows: dict[str, Ended]) -> None:
    flow = flows["spent 500"]
    assert flow.status == "failed"
    assert [call.attempt for call in flow.calls] == [1, 2, 3, 4]
    [end] = flow.events(FlowFailed)
    assert (end.kind, end.item) == ("exhausted", 1)
    assert [type(failure.decision) for _, failure in flow.failures()] == [RetryAt, RetryAt, RetryAt, GiveUp]


@pytest.mark.promise("A4", "A6")
@pytest.mark.parametrize("name", PERMANENT)
def test_a_failure_for_good_is_not_retried(flows: dict[str, Ended], name: str) -> None:
    flow = flows[f"permanent {name}"]
    assert flow.status == "failed"
    assert len(flow.calls) == 1
    [(_, failure)] = flow.failures()
    assert (failure.failure.category, failure.failure.status) == ("permanent", PERMANENT[name].status)
    assert isinstance(failure.decision, GiveUp)
    assert failure.decision.kind == "permanent"
    assert flow.words == ["ItemStarted", "AttemptFailed", "StepSettled", "FlowFailed"]


@pytest.mark.promise("A4")
def test_what_the_handler_says_about_its_failure_is_kept(flows: dict[str, Ended]) -> None:
    for name in ("success: false", "success: false with 500"):
        [(_, failure)] = flows[f"permanent {name}"].failures()
        assert "the card was declined" in failure.error.message
    [(_, failure)] = flows["permanent 422"].failures()
    assert "the north warehouse is empty" in failure.error.message


@pytest.mark.promise("A5")
@pytest.mark.parametrize("name", GOOD)
def test_a_success_completes_the_work(flows: dict[str, Ended], name: str) -> None:
    flow = flows[f"good {name}"]
    assert (flow.status, flow.result) == ("completed", GOOD[name][1])
    assert flow.words == ["ItemStarted", "ItemCompleted", "FlowCompleted"]


@pytest.mark.promise("A7", "A8")
@pytest.mark.parametrize("name", WAITS)
def test_waits_follow_the_formula_and_the_cap(flows: dict[str, Ended], name: str) -> None:
    flow = flows[f"waits {name}"]
    waits = [
        (failure.decision.when - at, failure.decision.because.wait)
        for at, failure in flow.failures()
        if isinstance(failure.decision, RetryAt)
    ]
    expected = [milliseconds / 1000 for milliseconds in WAITS[name][1]]
    assert [wait for wait, _ in waits] == pytest.approx(expected, abs=ROUNDING)
    assert [wait for _, wait in waits] == pytest.approx(expected)
    assert flow.status == "completed"


@pytest.mark.promise("A7")
def test_no_retries_and_any_number_of_them(flows: dict[str, Ended]) -> None:
    assert (flows["no retries"].status, len(flows["no retries"].calls)) == ("failed", 1)
    unlimited = flows["unlimited"]
    assert (unlimited.status, len(unlimited.calls)) == ("completed", 13)
    [done] = unlimited.events(ItemCompleted)
    assert done.attempt == 13


@pytest.mark.promise("A6", "A9")
def test_retry_after_replaces_the_wait_and_one_that_is_too_long_ends_it(flows: dict[str, Ended]) -> None:
    flow = flows["retry after"]
    [(failed_at, failure)] = flow.failures()
    assert isinstance(failure.decision, RetryAt)
    assert failure.decision.when == pytest.approx(failed_at + 1.0, abs=ROUNDING)
    assert flow.calls[1].at >= failure.decision.when - ROUNDING
    assert flow.status == "completed"
    flow = flows["retry after too long"]
    [(_, failure)] = flow.failures()
    assert isinstance(failure.decision, GiveUp)
    assert (failure.decision.kind, len(flow.calls)) == ("retry_after", 1)
    assert "3600" in failure.decision.because.detail
