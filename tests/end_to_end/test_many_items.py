"""Steps with many work items: what runs at once, what fails the step, and what that means for the flow."""

import asyncio
from typing import Any

import pytest
from tests.end_to_end.scene import Ended, Handlers, ended, open_app, run, start

from redrive.flows.events import AttemptFailed, ItemCancelled, ItemCompleted, ItemStarted, StepSettled
from redrive.policies.decision import GiveUp

ROUNDS = 20
LONG = 30_000


def told(handlers: Handlers, **step: Any) -> dict[str, Any]:
    """A step whose work items say themselves how their handler behaves."""
    line = {"type": "object", "for_each": True, "from": "lines"}
    return {"endpoint": handlers.at("told"), "inputs": {"line": line}, "outputs": {"boxes": "any"}, **step}


def flows(address: str, handlers: Handlers, graph: dict[str, Any], *inputs: dict[str, Any]) -> list[Ended]:
    """A flow of the graph for each of the inputs, side by side."""

    async def scene() -> list[Ended]:
        async with open_app(address) as app:
            handles = [await start(app, graph, one) for one in inputs]
            return await asyncio.gather(*(ended(app, handlers, handle) for handle in handles))

    return run(scene())


def settled(flow: Ended) -> dict[str, str]:
    return {one.step: one.state for one in flow.events(StepSettled)}


@pytest.mark.promise("A10", "A15", "A1")
def test_no_more_items_run_at_once_than_parallelism_says(address: str, handlers: Handlers) -> None:
    group = f"at once {address[:6]}"
    lines = [{"how": "500", "times": n % 3, "ms": 5, "n": n, "group": group} for n in range(30)]
    step = told(handlers, parallelism=4, work_config={"max_retries": 3, "backoff": 5, "max_backoff": 10})
    [flow] = flows(address, handlers, {"steps": {"pack": step}}, {"lines": lines})
    assert flow.status == "completed"
    # All of them, in the order of the input, each after its own number of failures.
    assert [box["echo"]["line"]["n"] for box in flow.result["boxes"]] == list(range(30))
    assert len(flow.calls) == sum(1 + n % 3 for n in range(30))
    assert handlers.peak(group) == 4


@pytest.mark.promise("A15")
def test_backoff_frees_the_place_of_the_item(address: str, handlers: Handlers) -> None:
    step = told(handlers, parallelism=1, work_config={"max_retries": 1, "backoff": 300, "backoff_type": "fixed"})
    [flow] = flows(
        address, handlers, {"steps": {"pack": step}}, {"lines": [{"how": "500", "times": 1, "n": n} for n in range(3)]}
    )
    assert flow.status == "completed"
    assert [(call.body["line"]["n"], call.attempt) for call in flow.calls] == [
        *((0, 1), (1, 1), (2, 1)),
        *((0, 2), (1, 2), (2, 2)),
    ]


@pytest.mark.promise("A10")
def test_one_item_that_fails_for_good_fails_the_step_and_what_waits_is_abandoned(
    address: str, handlers: Handlers
) -> None:
    config = {"max_retries": 5, "backoff": LONG, "max_backoff": LONG, "backoff_type": "fixed"}
    step = told(handlers, parallelism=3, work_config=config)
    # 0 is done, 1 waits for half a minute, 2 fails for good; of 3 to 5 some run by then, and some never begin.
    hows: list[dict[str, Any]] = [{"how": "ok"}, {"how": "503"}, {"how": "failed", "ms": 5}, *[{"how": "ok"}] * 3]
    for flow in flows(address, handlers, {"steps": {"pack": step}}, *[{"lines": hows}] * ROUNDS):
        assert flow.status == "failed"
        assert settled(flow) == {"pack": "failed"}
        begun = {one.item for one in flow.events(ItemStarted)} | {one.item for _, one in flow.starts()}
        dropped = {one.item for one in flow.events(ItemCancelled)}
        done = {one.item for one in flow.events(ItemCompleted)}
        gave_up = {one.item: one.decision.kind for _, one in flow.failures() if isinstance(one.decision, GiveUp)}
        assert gave_up.pop(3) == "permanent"
        # Whether 1 still ran or waited already, it is not tried again.
        assert gave_up in ({}, {2: "abandoned"})
        # Every item is accounted for, once.
        assert sorted([3, *gave_up, *dropped, *done]) == [1, 2, 3, 4, 5, 6]
        assert len(flow.calls) == len(begun)


@pytest.mark.promise("A10")
def test_an_item_that_runs_when_its_step_fails_may_end_and_is_not_retried(address: str, handlers: Handlers) -> None:
    step = told(handlers, work_config={"max_retries": 5, "backoff": 1})
    hows = [{"how": "404"}, {"how": "503", "ms": 60}, {"how": "ok", "ms": 60}]
    [flow] = flows(address, handlers, {"steps": {"pack": step}}, {"lines": hows})
    assert flow.status == "failed"
    kinds = [one.decision.kind for one in flow.events(AttemptFailed) if isinstance(one.decision, GiveUp)]
    assert kinds == ["permanent", "abandoned"]
    assert [one.item for one in flow.events(ItemCompleted)] == [3]
    assert len(flow.calls) == 3


def shop(handlers: Handlers, goals: list[str], **broken: str) -> dict[str, Any]:
    """check -> reserve -> ship, and beside them mail, which needs nobody's data; those that are broken fail."""

    def at(step: str, **more: Any) -> dict[str, Any]:
        how = broken.get(step, "ok")
        config = {"max_retries": 1, "backoff": 5}
        return {"endpoint": handlers.at(how), "outputs": [f"{step}ed"], "work_config": config, **more}

    steps = {
        "check": at("check"),
        "reserve": at("reserve", inputs={"checked": "any"}),
        "ship": at("ship", inputs={"reserveed": "any"}),
        "mail": at("mail", depends_on=["check"]),
    }
    return {"goals": goals, "also": ["mail"] if "mail" not in goals else [], "steps": steps}


@pytest.mark.promise("A11")
@pytest.mark.parametrize(
    ("goals", "broken", "status", "states"),
    [
        pytest.param(["ship"], {"ship": "404"}, "failed", {"ship": "failed"}, id="a goal fails"),
        pytest.param(["ship"], {"ship": "500"}, "failed", {"ship": "failed"}, id="a goal fails too often"),
        pytest.param(
            *(["ship"], {"reserve": "404"}, "failed", {"reserve": "failed", "ship": "unreachable"}),
            id="what a goal needs fails",
        ),
        # Whether it fails before the goals are reached or is abandoned then is chance.
        pytest.param(["ship"], {"mail": "404"}, "completed", {}, id="a step beside the goals fails"),
        pytest.param(["ship", "mail"], {"mail": "404"}, "failed", {"mail": "failed"}, id="one of two goals fails"),
    ],
)
def test_what_a_failed_step_means_for_the_flow(
    address: str, handlers: Handlers, goals: list[str], broken: dict[str, str], status: str, states: dict[str, str]
) -> None:
    [flow] = flows(address, handlers, shop(handlers, goals, **broken), {})
    assert flow.status == status
    assert states.items() <= settled(flow).items()
    if status == "completed":
        assert list(flow.result) == ["shiped"]


@pytest.mark.promise("A10", "A11")
def test_what_had_succeeded_is_undone_over_http_newest_first(address: str, handlers: Handlers) -> None:
    def step(how: str, **more: Any) -> dict[str, Any]:
        return {"endpoint": handlers.at(how), "work_config": {"max_retries": 2, "backoff": 5}, **more}

    graph = {
        "goals": ["ship"],
        "steps": {
            "reserve": step("ok", outputs=["reservation"], compensate="release"),
            "charge": step("ok", inputs={"reservation": "any"}, outputs=["payment"], compensate="refund"),
            "ship": step("failed", inputs={"payment": "any"}),
            "release": step("ok", inputs={"reservation": "any"}),
            "refund": {**step("ok", inputs={"payment": "any"}), "endpoint": handlers.at("503", times=1)},
        },
    }
    [flow] = flows(address, handlers, graph, {})
    assert flow.status == "failed"
    assert [call.headers["redrive-step"] for call in flow.calls] == [
        *("reserve", "charge", "ship", "refund", "refund", "release")
    ]
