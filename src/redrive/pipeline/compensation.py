"""The saga: when a run fails, the stages that succeeded are compensated, newest first."""

import asyncio
from collections.abc import Mapping
from inspect import isawaitable
from typing import NamedTuple, Protocol

import msgspec

from redrive.calls.retrier import Retrier
from redrive.errors import Permanent
from redrive.pipeline.cancellation import cancelled_inside
from redrive.pipeline.coroutine_functions import not_awaitable
from redrive.pipeline.events import StageCompensated, StageCompensationFailed
from redrive.pipeline.output import StageOutput
from redrive.pipeline.redacted_text import error_text
from redrive.pipeline.sinks import put
from redrive.pipeline.stage_run import StageRun


class CompensationReport(msgspec.Struct):
    """What has been compensated so far, and what could not be."""

    compensated: list[str] = []
    failures: dict[str, BaseException] = {}
    raised: BaseException | None = None
    """What ends the program or the task, raised once everything is reported."""
    stopped: bool = False
    """Whether there is no time left: the remaining stages are reported as failures, or left to the outer run."""
    outer_run_resumes: bool = False
    """Whether the run is nested: the outer run, which stops it, compensates the remaining stages."""


class InnerRun(Protocol):
    """A run of a nested pipeline."""

    async def compensate(self, report: CompensationReport, path: str) -> None: ...


class Compensable(NamedTuple):
    """A stage that did work: its own, if `output` is there, and that of nested runs."""

    ctx: StageRun
    output: StageOutput | None
    inner_runs: tuple[InnerRun, ...]


async def compensate_stages(
    done: list[Compensable],
    retriers: Mapping[str, Retrier],
    ids: Mapping[str, str | None],
    report: CompensationReport,
    path: str,
) -> None:
    """Compensate all stages, with the retries of each stage; one that fails does not keep the others from it.

    done: what is left to compensate, oldest first; entries are removed as they are compensated.
    path: the stages of outer pipelines around this one, as in "trip/".
    """
    while done:
        ctx, output, inner_runs = done[-1]
        name = ctx.stage_name
        for run in reversed(inner_runs):
            await run.compensate(report, f"{path}{name}/")
        error = None if output is None else await _compensate(ctx, output, retriers[name], report)
        if report.stopped and report.outer_run_resumes:
            return
        done.pop()
        if output is None:
            continue
        if error is None:
            report.compensated.append(path + name)
            put(ctx.event_sink, StageCompensated(stage=name, **ids))
        else:
            report.failures[path + name] = error
            put(
                ctx.event_sink,
                StageCompensationFailed(stage=name, error=error_text(error), error_type=type(error).__name__, **ids),
            )


async def _compensate(
    ctx: StageRun, output: StageOutput, retrier: Retrier, report: CompensationReport
) -> BaseException | None:
    """Compensate one stage; return the error if that fails."""
    if report.stopped:
        return Permanent("the run was stopped before this stage was compensated")
    compensate = ctx.spec.compensate
    assert compensate is not None  # noqa: S101 - narrows for mypy: only such stages have an output here

    async def attempt() -> None:
        while ctx.before_compensation:
            await ctx.before_compensation[-1]()
            # Only once: by the next attempt, another run may have done the work again.
            ctx.before_compensation.pop()
        work = compensate(ctx.stage_context(), output)
        if not isawaitable(work):
            raise not_awaitable(ctx.stage_name, "compensate")
        await work

    task = asyncio.current_task()
    cancel_requests = 0 if task is None else task.cancelling()
    try:
        # Independent: a guarded call around the run would not repeat a compensation.
        await Retrier(retrier.policy, operation=f"compensate {ctx.stage_name}", independent=True).acall(attempt)
    except Exception as error:  # noqa: BLE001 - reported; the other stages are compensated all the same
        return error
    except asyncio.CancelledError as cancelled:
        if task is not None and task.cancelling() == cancel_requests:
            return cancelled_inside("compensation", cancelled)
        report.raised, report.stopped = cancelled, True
        return cancelled
    except BaseException as error:  # noqa: BLE001 - raised once the other stages are compensated, or reported
        report.raised = report.raised or error
        report.stopped = isinstance(error, GeneratorExit | KeyboardInterrupt | SystemExit)
        return error
    return None
