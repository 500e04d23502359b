"""The same pipelines with stageflow-core, for `benchmarks.pipeline`; installed by `make bench-pipeline` only."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from stageflow.api import Pipeline, PipelineContext, StageKind, StageOutput

# It logs each stage; formatting what nobody reads would not be fair.
logging.getLogger("stageflow").setLevel(logging.CRITICAL)


class Work:
    name = "work"
    kind = StageKind.WORK

    async def execute(self, ctx: Any) -> StageOutput:
        return StageOutput.ok(number=1)


def runner(dependencies: dict[str, tuple[str, ...]]) -> Callable[[], Awaitable[int]]:
    """Runs a pipeline of these stages with the default interceptors, and says how many gave an output."""
    pipeline = Pipeline()
    for name, others in dependencies.items():
        pipeline = pipeline.with_stage(name, Work(), StageKind.WORK, dependencies=others)
    built = pipeline.build()

    async def run() -> int:
        return len(await built.run(PipelineContext()))

    return run
