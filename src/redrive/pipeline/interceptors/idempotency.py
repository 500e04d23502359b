"""Run work with the same key once; later runs with that key get the stored output."""

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any, Protocol

from redrive.determinism.clock import current_clock
from redrive.pipeline.context import key_for_round
from redrive.pipeline.interceptors.base import BaseInterceptor, ErrorAction
from redrive.pipeline.output import StageOutput, StageResult, StageStatus
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import StageRun

Key = tuple[str, str]
"""The stage's name and its idempotency key."""


class OutputStore(Protocol):
    """Stores outputs by key; an implementation of your own may outlive the process.

    Before a stage is compensated its output is forgotten, so that the next run does the work again. A store without
    `forget` works for stages without `compensate`; with others, it is refused when the run begins.
    """

    async def get(self, key: Key) -> StageOutput | None: ...

    async def put(self, key: Key, output: StageOutput) -> None: ...

    async def forget(self, key: Key) -> None: ...


class OutputsInMemory:
    """Keeps outputs in memory: at most `limit`, each for `seconds`."""

    def __init__(self, limit: int = 10_000, seconds: float = 3600.0) -> None:
        if limit < 1 or not seconds > 0:
            raise ValueError(f"limit and seconds: {limit!r}, {seconds!r} are not allowed; use numbers above 0")
        self._limit = limit
        self._seconds = seconds
        self._outputs: OrderedDict[Key, tuple[float, StageOutput]] = OrderedDict()

    async def get(self, key: Key) -> StageOutput | None:
        known = self._outputs.get(key)
        if known is None:
            return None
        if current_clock().monotonic() >= known[0]:
            del self._outputs[key]
            return None
        self._outputs.move_to_end(key)
        return known[1]

    async def put(self, key: Key, output: StageOutput) -> None:
        self._outputs[key] = current_clock().monotonic() + self._seconds, output
        self._outputs.move_to_end(key)
        while len(self._outputs) > self._limit:
            self._outputs.popitem(last=False)

    async def forget(self, key: Key) -> None:
        self._outputs.pop(key, None)


class IdempotencyInterceptor(BaseInterceptor):
    """Runs stages with the same `idempotency_key` once. Concurrent runs with one key wait for the first.

    Only successful outputs are stored: work that failed or was compensated is done again by the next run.
    """

    name = "idempotency"
    priority = 3

    def __init__(self, store: OutputStore | None = None) -> None:
        self._store: OutputStore = OutputsInMemory() if store is None else store
        self._working: dict[tuple[Any, Key], asyncio.Future[None]] = {}

    def check_can_forget(self, spec: StageSpec) -> None:
        """Raise TypeError if the stage can be compensated but the store could not forget its output."""
        if spec.idempotency_key is not None and spec.compensate is not None and not hasattr(self._store, "forget"):
            raise TypeError(
                f"interceptors: stage {spec.name!r} can be compensated, but {type(self._store).__name__} cannot forget "
                "its output; add to the store: async def forget(self, key)"
            )

    async def before(self, stage_name: str, ctx: StageRun) -> StageOutput | None:
        text = ctx.spec.key_for(ctx.stage_context())
        if text is None:
            return None
        key, loop = (stage_name, key_for_round(text, ctx.round)), asyncio.get_running_loop()
        while (working := self._working.get((loop, key))) is not None:
            await asyncio.wait([working])
        self._working[loop, key] = loop.create_future()
        ctx.interceptor_state[id(self)] = loop, key
        known = await self._store.get(key)
        if known is not None:
            self._release(ctx)
        return known

    async def after(self, stage_name: str, result: StageResult, ctx: StageRun) -> None:
        try:
            if id(self) in ctx.interceptor_state and result.status == "completed":
                key = ctx.interceptor_state[id(self)][1]
                if ctx.spec.compensate is not None:
                    # Before `put`: it may fail and have stored the output all the same.
                    ctx.before_compensation.append(partial(self._store.forget, key))
                await self._store.put(key, StageOutput(StageStatus.OK, result.data))
        finally:
            self._release(ctx)

    async def on_error(self, stage_name: str, error: Exception, ctx: StageRun) -> ErrorAction | None:
        self._release(ctx)
        return None

    def on_cancel(self, stage_name: str, ctx: StageRun) -> None:
        self._release(ctx)

    def _release(self, ctx: StageRun) -> None:
        held = ctx.interceptor_state.pop(id(self), None)
        if held is not None:
            self._working.pop(held).set_result(None)
