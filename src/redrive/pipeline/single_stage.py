"""One stage alone: for tests of a stage, and for scripts."""

from collections.abc import Mapping
from typing import Any

from redrive.pipeline.errors import PipelineFailedError
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.pipeline import Pipeline


async def run_with_retry(stage: Any, *interceptors: BaseInterceptor, **given: Any) -> Mapping[str, Any]:
    """Run one stage with these interceptors and return its data; its own error is raised when it fails for good."""
    try:
        result = await Pipeline().with_stage("stage", stage, "work").run(data=given, interceptors=interceptors)
    except PipelineFailedError as failed:
        raise failed.error from failed.error.__cause__
    return result.data("stage")
