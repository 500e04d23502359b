"""What the tests of pipelines share: a sink that takes nothing but what is right, stages as told, and a run."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from redrive.pipeline import (
    BaseInterceptor,
    EventQueue,
    Pipeline,
    PipelineFailedError,
    PipelineResult,
    QueuedEvent,
    StageContext,
    StageKind,
    StageOutput,
)


class Stage:
    """Ends as told, attempt for attempt; the last word stands for all that follow."""

    kind = StageKind.WORK

    def __init__(self, *endings: Any, name: str = "work", **attributes: Any) -> None:
        self.name = name
        self.endings = endings or (StageOutput.ok(done=True),)
        self.calls = 0
        vars(self).update(attributes)

    async def execute(self, ctx: StageContext) -> Any:
        ending = self.endings[min(self.calls, len(self.endings) - 1)]
        self.calls += 1
        if isinstance(ending, BaseException):
            raise ending
        return await ending(ctx) if callable(ending) else ending


class Events:
    """What a strict sink was told."""

    def __init__(self, taken: list[QueuedEvent]) -> None:
        self.taken = taken

    def named(self, name: str) -> list[Any]:
        return [one.event for one in self.taken if one.type == name]

    @property
    def names(self) -> list[str]:
        return [one.type for one in self.taken]


class Ran:
    """How a run ended."""

    def __init__(self, result: PipelineResult | None, failed: PipelineFailedError | None, events: Events) -> None:
        self._result = result
        self._failed = failed
        self.events = events

    @property
    def result(self) -> PipelineResult:
        assert self._result is not None, self._failed
        return self._result

    @property
    def failed(self) -> PipelineFailedError:
        assert self._failed is not None, self._result
        return self._failed


async def ran(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None = None, **options: Any) -> Ran:
    """Run it with a strict sink."""
    sink = EventQueue(limit=100_000)
    result = failed = None
    try:
        result = await pipeline.run(event_sink=sink, interceptors=interceptors, **options)
    except PipelineFailedError as error:
        failed = error
    assert sink.refused == sink.dropped == 0
    return Ran(result, failed, Events(sink.take_all()))


def run(pipeline: Pipeline, interceptors: Iterable[BaseInterceptor] | None = None, **options: Any) -> Ran:
    return asyncio.run(ran(pipeline, interceptors, **options))


def one(stage: Any, name: str = "work") -> Pipeline:
    """A pipeline of one stage."""
    return Pipeline().with_stage(name, stage)


def gives(**values: Any) -> Callable[[StageContext], Any]:
    async def give(ctx: StageContext) -> Mapping[str, Any]:
        return values

    return give
