"""`@scheduled`: schedules that are declared beside the workflow or action that they start."""

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from redrive.errors import ScheduleError
from redrive.flows.action import Action
from redrive.flows.job import write_job
from redrive.flows.registry import ACTION, WORKFLOW
from redrive.flows.schedules.schedule import ScheduleSpec
from redrive.flows.schedules.settings import ScheduleSettings, check_name, schedule_spec
from redrive.flows.workflows.workflow import Workflow

Scheduled = TypeVar("Scheduled", bound="type[Workflow] | Action[Any, Any]")

DECLARED: dict[str, ScheduleSpec] = {}
"""The schedules that the modules loaded so far declare, by name."""


def scheduled(
    *, name: str | None = None, revision: int = 0, **settings: Unpack[ScheduleSettings]
) -> Callable[[Scheduled], Scheduled]:
    """Start a workflow or an action, which takes no arguments, by a schedule: `@redrive.scheduled(cron="0 2 * * *")`.

    It stands above `@redrive.workflow` or `@redrive.action`. A worker writes the schedule when it starts, and changes
    the stored one where the two differ, so the worker that started last decides. With workers of several versions, set
    `revision` and raise it with each change: a lower one never replaces a higher one.

    name: the schedule's name; by default that of the workflow or action.
    settings: as in `app.schedule`.
    """

    def declare(given: Scheduled) -> Scheduled:
        definition, text = _input_of(given)
        chosen = check_name(definition.partition(":")[2] if name is None else name)
        if isinstance(revision, bool) or not isinstance(revision, int) or revision < 0:
            raise ScheduleError(f"revision: {revision!r:.40} is not allowed; use a whole number from 0")
        spec = schedule_spec(definition, text, source="code", revision=revision, **settings)
        known = DECLARED.get(chosen)
        if known is not None and known.definition != definition:
            raise ScheduleError(
                f"two schedules are named {chosen!r}: of {known.definition} and {definition}; "
                'give one of them another name: @scheduled(name="...")'
            )
        DECLARED[chosen] = spec
        return given

    return declare


def _input_of(given: Any) -> tuple[str, str]:
    """Return what flows of the workflow or action run, and their input without arguments."""
    if isinstance(given, Action):
        call = given()
        text = write_job(call, call.action.policy)
        return ACTION + given.name, text
    if isinstance(given, type) and issubclass(given, Workflow) and hasattr(given, "workflow_name"):
        return WORKFLOW + given.workflow_name, given.signature.bind((), {}).encoded
    raise ScheduleError(
        f"@scheduled needs a workflow or an action, not {given!r:.80}; write it above @workflow or @action"
    )
