"""What type checkers must say about the public names. Checked by mypy and pyright, never run.

A line with `type: ignore` must be an error: an ignore that is not needed is itself reported.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, assert_type

from anthropic import Anthropic
from openai import AsyncOpenAI
from urllib3 import PoolManager

import redrive
from redrive.calls.attempt_loop import Attempts
from redrive.calls.fallback import Fallback
from redrive.integrations.anthropic import owned as own_anthropic
from redrive.integrations.django import start as start_in_django
from redrive.integrations.openai import owned as own_openai
from redrive.integrations.ownership import ownership_headers
from redrive.integrations.urllib3 import owned as own_urllib3
from redrive.pipeline import (
    BaseInterceptor,
    ErrorAction,
    Pipeline,
    PipelineContext,
    PipelineResult,
    RetryInterceptor,
    Stage,
    StageContext,
    StageKind,
    StageOutput,
    StageRun,
)


@redrive.retry
def plain(url: str, *, times: int = 1) -> float:
    return times * 1.5


@redrive.retry()
def with_empty_brackets(url: str) -> float:
    return 1.5


@redrive.retry(attempts=5, retry_on=(ConnectionError,), deadline="60s", attempt_timeout="5s")
def with_settings(url: str) -> float:
    return 1.5


@redrive.retry(redrive.Policy(attempts=5), dependency="payments", fallback=0.0)
def with_policy(url: str) -> float:
    return 1.5


@redrive.Retrier(operation="fetch").wrap
def with_retrier(url: str) -> float:
    return 1.5


@redrive.retry
async def coroutine(url: str) -> float:
    return 1.5


@redrive.retry(attempts=5)
async def coroutine_with_settings(url: str) -> float:
    return 1.5


@redrive.retry(generators="restart")
def items(upto: int) -> Iterator[int]:
    yield upto


@redrive.retry(generators="restart")
async def async_items(upto: int) -> AsyncIterator[int]:
    yield upto


class Client:
    @redrive.retry
    def method(self, path: str) -> bytes:
        return path.encode()

    @redrive.retry(attempts=2)
    async def async_method(self, path: str) -> bytes:
        return path.encode()

    @classmethod
    @redrive.retry
    def class_method(cls, path: str) -> "Client":
        return cls()

    @staticmethod
    @redrive.retry
    def static_method(path: str) -> bytes:
        return path.encode()

    @property
    @redrive.retry
    def computed(self) -> int:
        return 1


async def functions_keep_their_types() -> None:
    assert_type(plain("u", times=2), float)
    assert_type(with_empty_brackets("u"), float)
    assert_type(with_settings("u"), float)
    assert_type(with_policy("u"), float)
    assert_type(with_retrier("u"), float)
    assert_type(await coroutine("u"), float)
    assert_type(await coroutine_with_settings("u"), float)
    # A coroutine, not just an awaitable: tasks are made of it.
    not_started: Coroutine[Any, Any, float] = coroutine("u")
    assert_type(asyncio.create_task(not_started), asyncio.Task[float])
    assert_type(items(3), Iterator[int])
    assert_type(async_items(3), AsyncIterator[int])


async def methods_keep_their_types() -> None:
    client = Client()
    assert_type(client.method("p"), bytes)
    assert_type(await client.async_method("p"), bytes)
    assert_type(Client.class_method("p"), Client)
    assert_type(Client.static_method("p"), bytes)
    assert_type(client.computed, int)
    with_self: Callable[[Client, str], bytes] = Client.method
    with_self(client, "p")


async def a_retrier_keeps_types() -> None:
    retrier = redrive.Retrier(redrive.Policy(attempts=5), dependency="payments", fallback=redrive.fallback.value(0.0))
    assert_type(retrier.call(len, "text"), int)
    assert_type(await retrier.acall(coroutine, "u"), float)
    assert_type(retrier.wrap(plain)("u", times=3), float)
    assert_type(await retrier.wrap(coroutine)("u"), float)


async def loops_give_attempts() -> None:
    assert_type(redrive.attempts(attempts=5), Attempts)
    for attempt in redrive.attempts(redrive.Policy()):
        assert_type(attempt, redrive.GuardedAttempt)
        with attempt as entered:
            assert_type(entered, redrive.GuardedAttempt)
            assert_type(entered.number, int)
            assert_type(entered.time_left, float | None)
    async for attempt in redrive.Retrier().attempts():
        assert_type(attempt, redrive.GuardedAttempt)


def code_after_a_loop_is_reachable() -> int:
    for attempt in redrive.attempts():
        with attempt:
            return plain_number()
    return 0


def plain_number() -> int:
    return 1


def the_rest() -> None:
    assert_type(redrive.report_of(ValueError()), redrive.policies.Report | None)
    assert_type(redrive.fallback.last_good("1h").kind, str)
    assert_type(redrive.fallback.call(len), Fallback)
    assert_type(redrive.TRANSIENT | redrive.UNKNOWN, redrive.failures.Match)
    assert_type(redrive.time_left(), float | None)
    assert_type(redrive.Policy().replace(attempts=4), redrive.Policy)
    stop = redrive.listen(print)
    assert_type(stop, Callable[[], None])


class Fetch:
    name = "fetch"
    kind = StageKind.WORK

    async def execute(self, ctx: StageContext) -> StageOutput:
        return StageOutput.ok(attempt=ctx.attempt)


class Watching(BaseInterceptor):
    async def before(self, stage_name: str, ctx: PipelineContext) -> None: ...

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction:
        ctx.fallback = StageOutput.ok(attempts=ctx.attempt)
        return ErrorAction.FALLBACK


async def pipelines() -> None:
    fetch: Stage = Fetch()
    pipeline = Pipeline().with_stage("fetch", fetch, StageKind.WORK).with_stage("again", Fetch, dependencies=("fetch",))
    assert_type(await pipeline.run(interceptors=[RetryInterceptor(), Watching()]), PipelineResult)
    assert_type((await pipeline.run())["fetch"], StageOutput)


async def durable_pipelines(app: redrive.App) -> None:
    pipeline = Pipeline("checkout").with_stage("fetch", Fetch())
    redrive.register_pipeline(pipeline, [RetryInterceptor(), Watching()])
    handle = await app.start(pipeline.call(data={"items": 3}, request_id="r-1"), key="order-17", delay="2h")
    assert_type(handle, redrive.Handle[dict[str, dict[str, Any] | None]])
    assert_type(await handle.result(), dict[str, dict[str, Any] | None])


@redrive.action
async def charge(user: str, *, cents: int = 0) -> float:
    return cents / 100


@redrive.action(timeout="30s")
def ship(order: str) -> list[str]:
    return [order]


@redrive.workflow
class Checkout(redrive.Workflow):
    # Named as settings of `start` are: neither gets in the other's way.
    async def run(self, order: str, *, key: int = 0, queue: bool = False) -> dict[str, float]:
        paid = await self.run_action(charge(order, cents=key), retry=redrive.RetryPolicy(attempts=3), timeout=30)
        assert_type(paid, float)
        assert_type(await ship(order), list[str])
        return {order: paid}


@redrive.workflow(name="billing.nightly")
class Nightly(redrive.Workflow):
    def __init__(self) -> None:
        self.total = 0

    async def run(self) -> int:
        return self.total


async def any_result(handle: redrive.Handle[object]) -> object:
    return await handle.result()


async def flows(app: redrive.App, graph: redrive.Graph, script: redrive.Script) -> None:
    handle = await app.start(Checkout.call("o-17", key=3), key="order-17", queue="orders", priority=2, delay="2h")
    assert_type(handle, redrive.Handle[dict[str, float]])
    assert_type(await handle.result(timeout="1m"), dict[str, float])
    assert_type(await any_result(handle), object)
    assert_type(await (await app.start(Nightly.call())).result(), int)
    assert_type(
        await app.start(charge("u1", cents=100), retry="3 attempts", timeout=5, key="u1"), redrive.Handle[float]
    )
    assert_type(await app.start(ship("o-17")), redrive.Handle[list[str]])
    assert_type(await app.start(graph.call({"order": 17}, goals=["ship"])), redrive.Handle[dict[str, Any]])
    assert_type(await app.start(script.call({"order": 17}, function="main"), priority=1), redrive.Handle[Any])


def flows_without_async(graph: redrive.Graph) -> None:
    app = redrive.open_sync("sqlite:///app.db", worker=False, threads=4)
    assert_type(app, redrive.SyncApp)
    with app as same:
        assert_type(same, redrive.SyncApp)
    handle = app.open().start(Checkout.call("o-17", key=3), key="order-17", delay="2h", connection=object())
    assert_type(handle, redrive.SyncHandle[dict[str, float]])
    assert_type(handle.result(timeout="1m"), dict[str, float])
    assert_type(app.start(charge("u1"), retry="3 attempts").result(), float)
    assert_type(app.start(graph.call({"order": 17})), redrive.SyncHandle[dict[str, Any]])
    assert_type(app.start_goals(["ship"], {"order": 17}, key="k"), redrive.SyncHandle[dict[str, Any]])
    assert_type(app.handle("f-1"), redrive.SyncHandle[Any])
    assert_type(app.redrive("f-1", by="ann", why="restocked"), list[str])
    any_handle: redrive.SyncHandle[object] = handle
    assert_type(any_handle.id, str)
    assert_type(start_in_django(Checkout.call("o-17"), key="k"), redrive.SyncHandle[dict[str, float]] | None)
    app.start(Checkout.call("o-17"), retry="3 attempts")  # type: ignore[call-overload]  # that is for jobs
    app.start(Checkout.call("o-17"), key=17)  # type: ignore[call-overload]  # the key of a flow is a str
    app.start(Checkout)  # type: ignore[call-overload]  # a class is not a call


async def what_must_be_an_error_when_a_flow_is_started(app: redrive.App) -> None:
    Checkout.call(17)  # type: ignore[arg-type]  # run takes a str
    Checkout.call()  # type: ignore[call-arg]  # run needs the order
    Checkout.call("o-17", cents=3)  # type: ignore[call-arg]  # run has no such argument
    Checkout.call("o-17", key="k")  # type: ignore[arg-type]  # run's own key is an int
    Nightly.call("o-17")  # type: ignore[call-arg]  # run takes nothing
    charge(17)  # type: ignore[arg-type]  # the action takes a str
    await app.start(Checkout)  # type: ignore[call-overload]  # a class is not a call
    await app.start(Checkout.call("o-17"), order="o-18")  # type: ignore[call-overload]  # arguments of run go to call
    await app.start(Checkout.call("o-17"), key=17)  # type: ignore[call-overload]  # the key of a flow is a str
    await app.start(Checkout.call("o-17"), retry="3 attempts")  # type: ignore[call-overload]  # that is for jobs
    wrong: redrive.Handle[int] = await app.start(Checkout.call("o-17"))  # type: ignore[arg-type]  # run gives a dict
    assert_type(wrong, redrive.Handle[int])


async def what_must_be_an_error(app: redrive.App) -> None:
    Pipeline().with_stage("number", 17)  # type: ignore[arg-type]  # a number is no stage
    await Pipeline().run(on_failure="stop")  # type: ignore[arg-type]  # there is no such word
    await app.start(Pipeline("checkout"), items=3)  # type: ignore[call-overload]  # it takes data and request_id
    RetryInterceptor(max_attemps=5)  # type: ignore[call-arg]  # a misspelt argument
    plain(1)  # type: ignore[arg-type]  # the guarded function takes a str
    plain("u", tries=3)  # type: ignore[call-arg]  # it has no such argument
    text: str = plain("u")  # type: ignore[assignment]  # it returns a float
    plain_result: float = coroutine("u")  # type: ignore[assignment]  # it is awaited first
    redrive.retry(attemps=5)  # type: ignore[call-overload]  # a misspelt setting
    redrive.retry(attempts="5")  # type: ignore[call-overload]  # attempts are counted
    redrive.retry(5)  # type: ignore[call-overload]  # a number is no policy
    redrive.attempts(attemps=5)  # type: ignore[call-arg]  # a misspelt setting
    redrive.Retrier(attemps=5)  # type: ignore[call-arg]  # a misspelt setting
    redrive.Retrier().call(len, 5)  # type: ignore[arg-type]  # the arguments are those of the function
    await redrive.Retrier().acall(len, "text")  # type: ignore[arg-type]  # not a coroutine function
    redrive.Policy(3)  # type: ignore[call-arg]  # fields are given by name
    redrive.Policy().attempts = 4  # type: ignore[misc]  # a policy is frozen
    assert_type((text, plain_result), tuple[str, float])


def owned_clients(openai_client: AsyncOpenAI, anthropic_client: Anthropic, pool: PoolManager) -> None:
    """An SDK's client keeps its type."""
    assert_type(own_openai(openai_client), AsyncOpenAI)
    assert_type(own_anthropic(anthropic_client), Anthropic)
    assert_type(own_urllib3(pool), PoolManager)
    assert_type(ownership_headers(), dict[str, str])
