"""Shows the current state of a flow's steps and their work items."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from redrive.flows.chunks import run_to_completion
from redrive.flows.drivers import driver_for
from redrive.flows.events import ItemAdded, Line, StepSettled
from redrive.flows.graphs.driver import GraphDriver
from redrive.flows.graphs.edges import edges_of, given_by
from redrive.flows.graphs.stored_graph import read_graph_input
from redrive.flows.history import FlowHistory, fold
from redrive.flows.item import Item
from redrive.flows.next_tries import next_tries
from redrive.flows.registry import GRAPH
from redrive.flows.replay import replay
from redrive.flows.rewind import drop_rewound
from redrive.policies.eligibility import eligibility
from redrive.stores.records import FINISHED, FlowRecord
from redrive.worker.flow.retry_rows import attempts_before_redrive


class ItemView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    item: int
    """The item's number in the flow."""
    index: int
    """The item's position among the items of its step, from 0."""
    state: str
    attempts: int
    """Attempts started so far."""
    max_attempts: int | None
    """None: no limit."""
    next_retry_at: float | None
    retry_eligible: bool
    """Whether the policy allows another attempt."""
    ready: bool
    """Whether that attempt may start now."""
    reason: str
    """The reason for both, in a short phrase."""
    error: str | None = None
    """The error of the last failed attempt."""
    compensates: str | None = None
    """The step that this item compensates."""


class StepView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    state: str
    why: str | None = None
    depends_on: tuple[str, ...] = ()
    """The steps that it names as such."""
    after: tuple[str, ...] = ()
    """All steps that it waits for: those it depends on, and those whose outputs it takes."""
    items: tuple[ItemView, ...] = ()


def steps_of(record: FlowRecord, lines: Sequence[Line], now: float) -> list[StepView]:
    """Return all steps of a graph's flow; of any other flow, the actions that it has called so far."""
    by_step: dict[str, list[ItemView]] = {}
    history = fold(list(lines))
    index_of = indexes_of(record.definition, history.items.values())
    tries = next_tries(history.items.values(), record.wake_at, now)
    for item in history.items.values():
        view = _item(item, index_of[item.number], tries.get(item.number), now, ended=history.ending is not None)
        by_step.setdefault(item.step, []).append(view)
    if not record.definition.startswith(GRAPH):
        return [
            StepView(name=step, state=_state_of_items(items), items=tuple(items)) for step, items in by_step.items()
        ]
    plan = read_graph_input(record.input).plan
    states = _states(record, list(lines))
    views = []
    providers = {value: spec.name for spec in plan.steps for value in given_by(spec)}
    for spec in (*plan.steps, *plan.compensations):
        items = by_step.get(spec.name, [])
        state, why = states.get(spec.name) or (_state_of_items(items) if items else "pending", "")
        if record.status in FINISHED and state in ("pending", "running"):
            state = "abandoned"
        views.append(
            StepView(
                name=spec.name,
                state=state,
                why=why or None,
                depends_on=spec.depends_on,
                after=tuple(edge.step for edge in edges_of(spec, providers)),
                items=tuple(items),
            )
        )
    return views


def indexes_of(definition: str, items: Iterable[Item]) -> dict[int, int]:
    """Return the position of each item among the items of its step, by item number."""
    if definition.startswith(GRAPH):
        return {item.number: item.index for item in items}
    calls: Counter[str] = Counter()
    indexes = {}
    for item in items:
        indexes[item.number] = calls[item.step]
        calls[item.step] += 1
    return indexes


def _states(record: FlowRecord, lines: list[Line]) -> dict[str, tuple[str, str]]:
    """Replay the log, and return each step's state and reason as the planner has them at its end."""
    if not any(isinstance(line.event, ItemAdded | StepSettled) for line in drop_rewound(lines)):
        return {}
    driver = driver_for(record.definition, record.id, record.input)
    assert isinstance(driver, GraphDriver)  # noqa: S101 - the definition is a graph
    run_to_completion(replay(lines, driver, FlowHistory(), lines[0].at))
    return {name: (status.state, status.why) for name, status in driver.states.items()}


def _state_of_items(items: Sequence[ItemView]) -> str:
    states = {item.state for item in items}
    for state in ("failed", "running", "waiting", "queued", "completed"):
        if state in states:
            return state
    return "abandoned"


def _item(item: Item, index: int, next_try: float | None, now: float, ended: bool) -> ItemView:
    policy = item.policy
    state = "abandoned" if item.state == "cancelled" or (ended and item.is_open) else item.state
    running = state == "running"
    most = None if policy.attempts is None else policy.attempts + attempts_before_redrive(item)
    answer = eligibility(
        attempts=item.attempt,
        max_attempts=most,
        retryable=policy.attempts != 1,
        next_retry_at=item.retry_at if next_try is None else next_try,
        dependencies_satisfied=True,
        now=now,
        running=running,
    )
    done = state in ("completed", "abandoned")
    last = item.failures[-1].event if item.failures else None
    return ItemView(
        item=item.number,
        index=index,
        state=state,
        attempts=item.attempt,
        max_attempts=most,
        next_retry_at=next_try if state == "waiting" else None,
        retry_eligible=answer.retry_eligible and not done and item.state != "failed",
        ready=answer.ready and item.is_open and not ended,
        reason="it is done" if done else "it failed for good" if item.state == "failed" else answer.reason,
        error=f"{last.error.type}: {last.error.message}" if last is not None else None,
        compensates=item.compensates or None,
    )
