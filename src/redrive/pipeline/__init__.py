"""A DAG of async stages in one process, with retries, timeouts, circuits, metrics and spans around each attempt.

pipeline = Pipeline().with_stage("fetch", Fetch(), StageKind.WORK)
result = await pipeline.run(interceptors=[*get_default_interceptors(), RetryInterceptor()])
"""

from redrive.pipeline.context import Feedback, PipelineContext, StageContext, StageInputs
from redrive.pipeline.errors import PipelineFailedError, StageReportedError
from redrive.pipeline.guard_retry import GuardRetry
from redrive.pipeline.interceptors import (
    BackoffStrategy,
    BaseInterceptor,
    CircuitBreakerInterceptor,
    ErrorAction,
    IdempotencyInterceptor,
    JitterStrategy,
    LoggingInterceptor,
    MetricsInterceptor,
    RetryInterceptor,
    TimeoutInterceptor,
    TracingInterceptor,
    get_default_interceptors,
)
from redrive.pipeline.output import StageOutput, StageResult, StageStatus
from redrive.pipeline.pipeline import Pipeline, run_with_retry
from redrive.pipeline.results import PipelineResult
from redrive.pipeline.sinks import EventQueue, EventSink, QueuedEvent
from redrive.pipeline.stage import Stage, StageKind
from redrive.pipeline.stage_run import StageRun

__all__ = [
    "BackoffStrategy",
    "BaseInterceptor",
    "CircuitBreakerInterceptor",
    "ErrorAction",
    "EventQueue",
    "EventSink",
    "Feedback",
    "GuardRetry",
    "IdempotencyInterceptor",
    "JitterStrategy",
    "LoggingInterceptor",
    "MetricsInterceptor",
    "Pipeline",
    "PipelineContext",
    "PipelineFailedError",
    "PipelineResult",
    "QueuedEvent",
    "RetryInterceptor",
    "Stage",
    "StageContext",
    "StageInputs",
    "StageKind",
    "StageOutput",
    "StageReportedError",
    "StageResult",
    "StageRun",
    "StageStatus",
    "TimeoutInterceptor",
    "TracingInterceptor",
    "get_default_interceptors",
    "run_with_retry",
]
