"""The saga: when a run fails, what its stages did is taken back, newest first."""

import asyncio
from collections.abc import Mapping
from inspect import isawaitable

import msgspec

from redrive.calls.retrier import Retrier
from redrive.errors import Permanent
from redrive.pipeline.attempt_loop import not_awaitable
from redrive.pipeline.cancellation import cancelled_inside
from redrive.pipeline.events import StageUndoFailed, StageUndone
from redrive.pipeline.output import StageOutput
from redrive.pipeline.shown import message_of
from redrive.pipeline.sinks import put
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import StageRun

Done = tuple[StageSpec, StageRun, StageOutput | None]
"""What can be undone: by the stage itself when it has an output here, and in the runs inside it."""


class Undone(msgspec.Struct):
    """How it went."""

    stages: list[str] = []
    failures: dict[str, BaseException] = {}
    raised: BaseException | None = None
    """What goes to the caller once all is told: the program or the task is being ended."""
    ended: bool = False
    """Whether nothing more is to be undone: there is no time."""
    goes_on: bool = False
    """Whether somebody else undoes the rest, then: the run around this one, which ends it."""


async def undo_stages(
    done: list[Done], guards: Mapping[str, Retrier], ids: Mapping[str, str | None], went: Undone, within: str
) -> None:
    """Undo them all; one whose undo fails does not keep the others from it. An undo is retried as its stage is.

    done: what is left to be undone, oldest first; what was is taken out.
    within: the stages of other pipelines that this one is inside of: "trip/".
    """
    while done:
        spec, state, output = done[-1]
        for run in reversed(state.inside):
            await run.undo_all(went, f"{within}{spec.name}/")
        error = None if output is None else await _undo(spec, state, output, guards[spec.name], went)
        if went.ended and went.goes_on:
            return
        done.pop()
        if output is None:
            continue
        if error is None:
            went.stages.append(within + spec.name)
            put(state.event_sink, StageUndone(stage=spec.name, **ids))
        else:
            went.failures[within + spec.name] = error
            put(
                state.event_sink,
                StageUndoFailed(stage=spec.name, error=message_of(error), error_type=type(error).__name__, **ids),
            )


async def _undo(
    spec: StageSpec, state: StageRun, output: StageOutput, guard: Retrier, went: Undone
) -> BaseException | None:
    """The error that it fails with."""
    if went.ended:
        return Permanent("the run was ended before this was undone")
    undo = spec.undo
    assert undo is not None  # noqa: S101 - narrows for mypy: only stages that have one leave an output here

    async def take_back() -> None:
        while state.forget:
            await state.forget[-1]()
            # Once: by the next attempt somebody else may have done the work again.
            state.forget.pop()
        work = undo(state.stage_context(), output)
        if not isawaitable(work):
            raise not_awaitable(spec.name, "undo")
        await work

    task = asyncio.current_task()
    cancels = 0 if task is None else task.cancelling()
    try:
        # Whoever owns the retries of the run does not make this again.
        await Retrier(guard.policy, operation=f"undo {spec.name}", independent=True).acall(take_back)
    except Exception as error:  # noqa: BLE001 - the others must be undone all the same; it is kept and told
        return error
    except asyncio.CancelledError as cancelled:
        if task is not None and task.cancelling() == cancels:
            return cancelled_inside("undo", cancelled)
        went.raised, went.ended = cancelled, True
        return cancelled
    except BaseException as error:  # noqa: BLE001 - raised once the rest is undone, or told
        went.raised = went.raised or error
        went.ended = isinstance(error, GeneratorExit | KeyboardInterrupt | SystemExit)
        return error
    return None
