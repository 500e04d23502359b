"""The saga: when a run fails, what its stages did is taken back, newest first."""

from collections.abc import Mapping, Sequence
from typing import Any

from redrive.calls.retrier import Retrier
from redrive.pipeline.events import StageUndoFailed, StageUndone
from redrive.pipeline.output import StageOutput
from redrive.pipeline.shown import message_of
from redrive.pipeline.sinks import put
from redrive.pipeline.stage import StageSpec
from redrive.pipeline.stage_run import StageRun


async def undo_stages(
    done: Sequence[tuple[StageSpec, StageRun, StageOutput]],
    guards: Mapping[str, Retrier],
    ids: Mapping[str, str | None],
) -> tuple[tuple[str, ...], dict[str, Exception]]:
    """Undo them all; one whose undo fails does not keep the others from it. An undo is retried as its stage is."""
    undone: list[str] = []
    failures: dict[str, Exception] = {}
    for spec, state, output in reversed(done):
        try:
            await _undo(spec, state, output, guards[spec.name])
        except Exception as error:  # noqa: BLE001 - the others must be undone all the same; it is kept and told
            failures[spec.name] = error
            put(
                state.event_sink,
                StageUndoFailed(stage=spec.name, error=message_of(error), error_type=type(error).__name__, **ids),
            )
        else:
            undone.append(spec.name)
            put(state.event_sink, StageUndone(stage=spec.name, **ids))
    return tuple(undone), failures


async def _undo(spec: StageSpec, state: StageRun, output: StageOutput, guard: Retrier) -> None:
    undo: Any = spec.undo
    if undo is None:
        assert state.undo is not None  # noqa: S101 - only what can be undone is in the list
        _, failures = await state.undo()
        for error in failures.values():
            raise error
        return
    retrier = Retrier(guard.policy, operation=f"undo {spec.name}")
    await retrier.acall(undo, state.stage_context(), output)
