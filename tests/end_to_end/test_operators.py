"""What operators do about a step by hand: try it again, complete it, resolve it; who and why is kept."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.end_to_end.scene import Ended, Handlers, called, ended, logged, open_app, run, start

import redrive
from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.errors import InvalidStateError, UnknownStepError
from redrive.flows.events import AttemptFailed, FlowCompleted, FlowFailed, ItemCompleted, Redriven
from redrive.flows.graphs.outputs import OutputError

ROUNDS = 7
CASH = {"payment": "cash"}
PAID = '{"payment": "card"}'
SAID: dict[str, Any] = {"by": "ann", "why": "seen at the desk"}
LONG = {"max_retries": 2, "backoff": 60_000, "max_backoff": 60_000, "backoff_type": "fixed"}
_names = (f"desk-{number}" for number in itertools.count(1))

Verb = Callable[[App, str, str], Coroutine[Any, Any, None]]


async def reset(app: App, flow_id: str, step: str) -> None:
    await app.reset_step(flow_id, step, **SAID)


async def complete(app: App, flow_id: str, step: str) -> None:
    await app.complete_step(flow_id, step, CASH, **SAID)


async def resolve(app: App, flow_id: str, step: str) -> None:
    await app.resolve_step(flow_id, step, **SAID)


class Shop:
    """charge fails until it is mended, pack is held until it is let go; ship needs both, and note only charge's end."""

    def __init__(self, handlers: Handlers, how: str, packs: bool = True) -> None:
        self.handlers = handlers
        self.mended, self.let_go = next(_names), next(_names)
        charge = handlers.at(how, until=self.mended, outputs=PAID)
        pack = handlers.at("ok", outputs='{"box": 1}', **({"hold": self.let_go} if packs else {}))
        self.graph: dict[str, Any] = {
            "goals": ["ship", "note"],
            "steps": {
                "charge": {"endpoint": charge, "outputs": {"payment": "string"}, "work_config": LONG},
                "pack": {"endpoint": pack, "outputs": {"box": "integer"}},
                "ship": {
                    "endpoint": handlers.at("ok"),
                    "inputs": {"payment": "string", "box": "integer"},
                    "outputs": ["parcel"],
                },
                "note": {"endpoint": handlers.at("ok"), "depends_on": ["charge", "pack"], "outputs": ["noted"]},
            },
        }

    def mend(self) -> None:
        self.handlers.release(self.mended)

    def go(self) -> None:
        self.handlers.release(self.let_go)


def calls_of(flow: Ended, step: str) -> list[int]:
    return [call.attempt for call in flow.calls if call.headers["redrive-step"] == step]


def check(flow: Ended, verb: Verb) -> None:
    """The flow went on as whoever settled the step wanted, and their names are in the log."""
    assert flow.status == "completed"
    by_hand: list[Any] = [*flow.events(Redriven), *(one for one in flow.events(ItemCompleted) if one.by)]
    assert {(one.by, one.why) for one in by_hand} == {(SAID["by"], SAID["why"])}
    assert calls_of(flow, "charge") == ([1, 2] if verb is reset else [1])
    assert calls_of(flow, "pack") == [1]
    assert len(calls_of(flow, "note")) == 1
    shipped = [call.body for call in flow.calls if call.headers["redrive-step"] == "ship"]
    if verb is resolve:
        # It has nothing to give, so whoever needs that is skipped; who only comes after it goes on.
        assert shipped == []
        assert list(flow.result) == ["noted"]
        assert [one.resolved for one in flow.events(ItemCompleted) if one.by] == [True]
    else:
        assert shipped == [{"payment": "card" if verb is reset else "cash", "box": 1}]
        assert list(flow.result) == ["parcel", "noted"]


async def settled(app: App, handlers: Handlers, handle: Handle[Any]) -> Ended:
    """Once it has completed: it may have failed before what was said about it was read."""
    await logged(app, handle.id, FlowCompleted)
    flow = await ended(app, handlers, handle)
    # It is no dead letter any more.
    assert flow.id not in {letter.flow_id for letter in await app.dead_letters()}
    return flow


VERBS = pytest.mark.parametrize("verb", [reset, complete, resolve])


@pytest.mark.promise("T10")
@VERBS
def test_a_failed_step_of_a_flow_that_failed(address: str, handlers: Handlers, verb: Verb) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            shop = Shop(handlers, "404", packs=False)
            handle = await start(app, shop.graph)
            assert (await ended(app, handlers, handle)).status == "failed"
            shop.mend()
            await verb(app, handle.id, "charge")
            return await settled(app, handlers, handle)

    check(run(story()), verb)


@pytest.mark.promise("T10")
@VERBS
def test_a_failed_step_while_others_run(address: str, handlers: Handlers, verb: Verb) -> None:
    async def one(app: App) -> Ended:
        shop = Shop(handlers, "404")
        handle = await start(app, shop.graph)
        await logged(app, handle.id, AttemptFailed)
        await called(handlers, handle.id, 2)
        shop.mend()
        # Some flows have failed as a whole by the time it is read, and some have not.
        await verb(app, handle.id, "charge")
        shop.go()
        return await settled(app, handlers, handle)

    async def story() -> list[Ended]:
        async with open_app(address) as app:
            return await asyncio.gather(*(one(app) for _ in range(ROUNDS)))

    for flow in run(story()):
        check(flow, verb)


@pytest.mark.promise("T10")
@VERBS
def test_a_step_that_waits_for_its_retry(address: str, handlers: Handlers, verb: Verb) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            shop = Shop(handlers, "503", packs=False)
            handle = await start(app, shop.graph)
            await logged(app, handle.id, AttemptFailed)
            await logged(app, handle.id, ItemCompleted)
            shop.mend()
            await verb(app, handle.id, "charge")
            flow = await ended(app, handlers, handle)
            assert [row for row in await app.retries() if row.flow_id == handle.id] == []
            return flow

    check(run(story()), verb)


def test_a_failed_step_is_tried_again_though_others_run_on(handlers: Handlers) -> None:
    mended, let_go = next(_names), next(_names)
    graph = {
        "goals": ["ship"],
        "also": ["charge"],
        "steps": {
            "charge": {"endpoint": handlers.at("404", until=mended, outputs=PAID), "outputs": {"payment": "string"}},
            "ship": {"endpoint": handlers.at("ok", hold=let_go), "outputs": ["parcel"]},
        },
    }

    async def story() -> Ended:
        async with open_app("memory://") as app:
            handle = await start(app, graph)
            await logged(app, handle.id, AttemptFailed)
            await called(handlers, handle.id, 2)
            handlers.release(mended)
            await reset(app, handle.id, "charge")
            try:
                await called(handlers, handle.id, 3, patience=1.0)
            finally:
                handlers.release(let_go)
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.status == "completed"
    assert calls_of(flow, "charge") == [1, 2]


@pytest.mark.promise("T10")
def test_one_item_of_many_is_completed_by_hand(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            line = {"type": "object", "for_each": True, "from": "lines"}
            pack = {"endpoint": handlers.at("told"), "inputs": {"line": line}, "outputs": {"boxes": "any"}}
            lines = [{"how": "ok"}, {"how": "503"}, {"how": "503"}]
            handle = await start(app, {"steps": {"pack": {**pack, "work_config": LONG}}}, {"lines": lines})
            await logged(app, handle.id, AttemptFailed, 2)
            await logged(app, handle.id, ItemCompleted)
            with pytest.raises(UnknownStepError, match="name one: 1, 2"):
                await complete(app, handle.id, "pack")
            for index in (2, 1):
                await app.complete_step(handle.id, "pack", {"boxes": f"by hand {index}"}, index=index, **SAID)
            return await ended(app, handlers, handle)

    flow = run(story())
    assert flow.result["boxes"][1:] == ["by hand 1", "by hand 2"]
    assert len(flow.calls) == 3


@pytest.mark.promise("T10")
def test_what_cannot_be_done_by_hand_is_refused_and_changes_nothing(address: str, handlers: Handlers) -> None:
    async def story() -> None:
        async with open_app(address) as app:
            shop = Shop(handlers, "404")
            handle = await start(app, shop.graph)
            await logged(app, handle.id, AttemptFailed)
            before = await app.log(handle.id)
            for verb in (reset, complete, resolve):
                with pytest.raises(redrive.FlowNotFoundError):
                    await verb(app, "nobody", "charge")
                with pytest.raises(UnknownStepError, match="chargee"):
                    await verb(app, handle.id, "chargee")
                with pytest.raises(UnknownStepError, match="ship"):
                    # It has not begun, and never will.
                    await verb(app, handle.id, "ship")
            with pytest.raises(UnknownStepError, match=r"charge\[1\]"):
                await app.reset_step(handle.id, "charge", index=1, **SAID)
            unfit: list[Any] = [{"payment": 7}, [], None]
            for outputs in unfit:
                with pytest.raises(OutputError, match="payment"):
                    await app.complete_step(handle.id, "charge", outputs, **SAID)
            with pytest.raises(InvalidStateError, match="an attempt is already in progress"):
                await reset(app, handle.id, "pack")
            assert await app.log(handle.id) == before
            shop.go()
            assert (await ended(app, handlers, handle)).status == "failed"
            # What was refused did not come into effect later either.
            assert [line for line in await app.log(handle.id) if isinstance(line.event, Redriven)] == []
            with pytest.raises(InvalidStateError, match="completed"):
                await complete_pack(app, handle.id)
            shop.mend()
            await reset(app, handle.id, "charge")
            await settled(app, handlers, handle)
            for verb in (reset, complete, resolve):
                with pytest.raises(redrive.errors.FlowFinishedError):
                    await verb(app, handle.id, "charge")

    run(story())


async def complete_pack(app: App, flow_id: str) -> None:
    await app.complete_step(flow_id, "pack", {"box": 2}, **SAID)


@pytest.mark.promise("T10")
def test_a_step_that_is_tried_again_and_fails_again_can_be_tried_once_more(address: str, handlers: Handlers) -> None:
    async def story() -> Ended:
        async with open_app(address) as app:
            shop = Shop(handlers, "404", packs=False)
            handle = await start(app, shop.graph)
            for time in range(1, 4):
                await logged(app, handle.id, FlowFailed, time)
                await ended(app, handlers, handle)
                if time == 3:
                    shop.mend()
                await reset(app, handle.id, "charge")
            return await settled(app, handlers, handle)

    flow = run(story())
    assert calls_of(flow, "charge") == [1, 2, 3, 4]
    assert len({call.receipt for call in flow.calls if call.headers["redrive-step"] == "charge"}) == 1
    assert len(flow.events(Redriven)) == 3
    assert calls_of(flow, "pack") == [1]
