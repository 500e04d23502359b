"""A name belongs to one durable pipeline: nobody's flows are carried out by the stages of another."""

import asyncio
import functools
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.pipeline.scene import gives

import redrive
from redrive.errors import PipelineError
from redrive.flows.action import action_named, known_actions
from redrive.flows.graphs.graph import graph_named
from redrive.pipeline import Pipeline, RetryInterceptor, StageContext, StageOutput
from redrive.pipeline.durable import forgetting_pipelines
from redrive.testing import FlowApp, flow_app


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with forgetting_pipelines():
        yield


class Worker:
    def __init__(self, who: str) -> None:
        self.who = who

    async def execute(self, ctx: StageContext) -> dict[str, str]:
        return {"who": self.who}

    async def compensate(self, ctx: StageContext, output: StageOutput) -> None: ...


@dataclass(frozen=True)
class Equal:
    who: str

    async def execute(self, ctx: StageContext) -> dict[str, str]:
        return {"who": self.who}


class Flaky:
    async def execute(self, ctx: StageContext) -> dict[str, int]:
        if ctx.attempt < 3:
            raise ConnectionError("away")
        return {"n": ctx.attempt}


def made_inside(n: int) -> Any:
    async def stage(ctx: StageContext) -> dict[str, int]:
        return {"n": n}

    return stage


def wrapped(n: int) -> Any:
    @functools.wraps(Flaky.execute)
    async def stage(ctx: StageContext) -> dict[str, int]:
        return {"n": n}

    return stage


def of(stage: Any, **options: Any) -> Pipeline:
    return Pipeline("same").with_stage("first", FIRST).with_stage("work", stage, **options)


FIRST = gives(n=0)
FLAKY = Flaky()
TAKEN = (
    r"pipeline 'same' is already registered {}; create it once and use that, or rename this one: "
    r"pipeline.with_name\(...\)"
)


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        (of(made_inside(0)), of(made_inside(1)), "with another stage 'work'"),
        (of(Worker("A")), of(Worker("B")), "with another stage 'work'"),
        (of(Worker("A").execute), of(Worker("B").execute), "with another stage 'work'"),
        (of(wrapped(0)), of(wrapped(1)), "with another stage 'work'"),
        (of(functools.partial(made_inside(0))), of(functools.partial(made_inside(1))), "with another stage 'work'"),
        (of(Worker("A")), of(FLAKY), "with another stage 'work'"),
        (of(FLAKY), of(FLAKY, dependencies=("first",)), "with another stage 'work'"),
        (of(FLAKY), of(FLAKY, when=lambda ctx: True), "with another stage 'work'"),
        (of(FLAKY), of(FLAKY).with_stage("more", FLAKY), "without a stage 'more'"),
        (of(FLAKY).with_stage("more", FLAKY), of(FLAKY), "with a stage 'more' that this one does not have"),
    ],
)
def test_another_pipeline_of_a_name_that_is_taken_is_refused_and_the_first_one_is_left_as_it_was(
    one: Pipeline, other: Pipeline, how: str
) -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                waiting = await app.start(one.call(), delay="500ms")
                known, graph = known_actions(), graph_named("same")
                with pytest.raises(PipelineError, match=TAKEN.format(how)) as refused:
                    await app.start(other.call())
                assert "\n" not in str(refused.value)
                with pytest.raises(PipelineError, match=TAKEN.format(how)):
                    redrive.register_pipeline(other)
                assert all(known_actions()[name] is action for name, action in known.items())
                assert graph_named("same") is graph
                renamed = await app.start(other.with_name("other").call())
            await app.outcome(waiting)
            await app.outcome(renamed)

    asyncio.run(story())


def test_each_of_two_names_runs_its_own_code() -> None:
    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flows = [
                    await app.start(of(made_inside(n)).with_name(f"n-{n}").call(), delay="500ms") for n in range(3)
                ]
            assert [(await app.outcome(flow)).result["work"] for flow in flows] == [{"n": n} for n in range(3)]

    asyncio.run(story())


@pytest.mark.parametrize("stage", [Flaky, FLAKY, FLAKY.execute, Equal("A")])
def test_the_same_pipeline_made_again_keeps_its_settings_until_others_are_asked_for(stage: Any) -> None:
    again = Equal("A") if isinstance(stage, Equal) else stage

    async def waits(app: FlowApp) -> list[float]:
        return (await app.outcome(await app.start(of(again).call()))).waits

    async def story() -> None:
        async with flow_app() as app:
            redrive.register_pipeline(of(stage), [RetryInterceptor(jitter_strategy="none")])  # type: ignore[arg-type]  # a word will do
            first = await waits(app)
            redrive.register_pipeline(of(again), [RetryInterceptor(jitter_strategy="none", base_delay_ms=10)])  # type: ignore[arg-type]  # a word will do
            second = await waits(app)
            assert (first, second) == (([], []) if isinstance(stage, Equal) else ([1.0, 2.0], [0.01, 0.02]))

    asyncio.run(story())


def test_names_with_dots_in_them_are_not_mistaken_for_each_other() -> None:
    one = Pipeline("a").with_stage("b.c", gives(n=1))
    other = Pipeline("a.b").with_stage("c", gives(n=2))

    async def story() -> None:
        async with flow_app() as app:
            with app.clock.frozen():
                flows = [await app.start(one.call(), delay="1s"), await app.start(other.call(), delay="1s")]
            assert [(await app.outcome(flow)).result for flow in flows] == [{"b.c": {"n": 1}}, {"c": {"n": 2}}]

    asyncio.run(story())


def test_an_action_that_has_the_name_of_a_stage_is_left_as_it_is_and_so_are_the_other_stages() -> None:
    @redrive.action(name="mixed/work")
    async def work() -> None: ...

    work.function.__qualname__ = "work"
    with pytest.raises(PipelineError, match=r"pipeline 'mixed': two actions are named 'mixed/work': .*; rename one of"):
        redrive.register_pipeline(Pipeline("mixed").with_stage("first", FIRST).with_stage("work", Worker("A")))
    assert action_named("mixed/work") is work
    assert "mixed/first" not in known_actions()


# What is loaded again

SHOP = """
from redrive.pipeline import Pipeline, RetryInterceptor

class Price:
    def __init__(self, n):
        self.n = n
    async def execute(self, ctx):
        return {"n": self.n, "of": list(ctx.inputs.outputs)}

async def old(ctx):
    return {"n": 1}

async def pack(ctx):
    return {"of": list(ctx.inputs.outputs)}

shop = Pipeline("shop").with_stage("old", old, when=lambda ctx: True).with_stage("price", Price(1))
shop = shop.with_stage("pack", pack, dependencies=("old",)).with_stage("bound", Price(3).execute)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "reloaded_shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("reloaded_shop")
    del sys.modules["reloaded_shop"]


def test_a_module_that_is_loaded_again_may_change_its_pipeline_and_flows_under_way_keep_their_plan(
    shop: ModuleType, tmp_path: Path
) -> None:
    before = shop.shop

    async def story() -> None:
        async with flow_app() as app:
            redrive.register_pipeline(before, [RetryInterceptor(max_attempts=7)])
            with app.clock.frozen():
                waiting = await app.start(before.call(), delay="1h")
                changed = SHOP.replace("Price(1)", "Price(2)").replace('("old",)', '("old", "price")')
                (tmp_path / "reloaded_shop.py").write_text(changed + 'shop = shop.with_stage("more", old)\n')
                after = importlib.reload(shop).shop
                now = await app.start(after.call())
            # Nobody registered it with other settings since.
            assert b'"attempts":7' in bytes(graph_named("shop").steps[0].policy)
            first, second = (await app.outcome(waiting)).result, (await app.outcome(now)).result
            assert (first["price"]["n"], first["pack"], "more" in first) == (2, {"of": ["old"]}, False)
            assert (second["price"]["n"], second["pack"], second["more"]) == (2, {"of": ["old", "price"]}, {"n": 1})

    asyncio.run(story())


def test_a_program_that_its_own_modules_import_again_registers_its_pipeline_twice(shop: ModuleType) -> None:
    started = {"__name__": "__main__"}
    exec(SHOP, started)  # noqa: S102 - as Python runs a program
    redrive.register_pipeline(started["shop"])  # type: ignore[arg-type]  # what the program made
    redrive.register_pipeline(shop.shop)


def test_what_a_test_registered_is_forgotten_with_its_app() -> None:
    async def story(n: int) -> Any:
        async with flow_app() as app:
            return (await app.outcome(await app.start(of(made_inside(n)).call()))).result["work"]

    assert [asyncio.run(story(n)) for n in range(2)] == [{"n": 0}, {"n": 1}]


def test_a_key_stays_good_when_the_stages_change() -> None:
    async def story() -> None:
        async with flow_app() as app:

            async def started(*names: str, n: int = 1) -> str:
                # Each in a process of its own.
                with forgetting_pipelines():
                    pipeline = Pipeline("keyed")
                    for name in names:
                        pipeline = pipeline.with_stage(name, FIRST)
                    return (await app.start(pipeline.call(data={"n": n}), key="k")).id

            first = await started("price")
            assert await started("price", "charge") == await started("cost") == first
            with pytest.raises(redrive.KeyTakenError):
                await started("price", n=2)

    asyncio.run(story())
