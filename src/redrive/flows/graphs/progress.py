"""The progress of a graph: given the outcome of each item, it says what to do next. It is pure and deterministic.

The same outcomes in the same order give the same moves. Handling an outcome only touches the steps that it affects, so
a whole flow costs no more than the size of its graph and the number of its items.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from redrive.flows.graphs.compensation import Compensation
from redrive.flows.graphs.conditions import ConditionError, holds
from redrive.flows.graphs.item_inputs import ItemInputs, UnfitInput
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem, StepState, UnexpectedOutcome
from redrive.flows.graphs.spec import Plan
from redrive.flows.graphs.step_runs import Cause, StepRun, connect

MOVES_AT_ONCE = 500
"""Items that start or are abandoned because of one outcome; the others follow with `more`. Replay depends on it."""

_LOST: tuple[StepState, ...] = ("failed", "unreachable", "abandoned")


class StepStatus(NamedTuple):
    state: StepState
    why: str


class GraphProgress:
    def __init__(self, plan: Plan, inputs: Mapping[str, Any]) -> None:
        self._plan = plan
        self._values = dict(inputs)
        self._runs = connect(plan)
        self._goals_left = sum(run.is_goal for run in self._runs.values())
        self._lost: Cause | None = None
        """The failure that made a goal impossible."""
        self._over = False
        """No step starts any more: all goals are reached, or one cannot be."""
        self._rest_abandoned = False
        self._finished = False
        self._open = 0
        self._settled: deque[StepRun] = deque()
        self._ready: list[StepRun] = []
        self._compensation = Compensation(plan)
        self._moves: list[Move] = []
        self._room = MOVES_AT_ONCE
        self._rest: deque[Iterator[Move]] = deque()
        """Moves that are still to be made, as far as they are then needed."""

    @property
    def has_more(self) -> bool:
        return bool(self._rest)

    @property
    def states(self) -> dict[str, StepStatus]:
        return {name: StepStatus(run.state, run.why) for name, run in self._runs.items()}

    def awaits(self, key: ItemKey) -> bool:
        """Whether the item's outcome still matters; if not, a failed attempt is not retried."""
        if key.compensates:
            return key in self._compensation.open
        run = self._runs.get(key.step)
        return run is not None and key.index in run.open and not run.is_abandoned and run.state == "running"

    # Outcomes

    def start(self) -> list[Move]:
        for run in self._runs.values():
            if run.waits == 0 and run.state == "pending" and not self._over:
                self._begin(run)
        return self._moved()

    def completed(self, key: ItemKey, outputs: Mapping[str, Any]) -> list[Move]:
        """`outputs` are those that `outputs_of` returns."""
        if key.compensates:
            return self._compensation_ended(key, "")
        run = self._closed(key)
        result = run.results[key.index] = dict(outputs)
        run.done += 1
        self._compensation.add(run.spec, key.index, run.inputs, result)
        self._item_ended(run)
        return self._moved()

    def failed(self, key: ItemKey, why: str) -> list[Move]:
        """The item failed for good."""
        if key.compensates:
            return self._compensation_ended(key, why or "it failed")
        awaited = self.awaits(key)
        run = self._closed(key)
        if awaited:
            self._fail(run, why, key)
        else:
            self._item_ended(run)
        return self._moved()

    def abandoned(self, key: ItemKey) -> list[Move]:
        """The item ended without an outcome, after it was abandoned."""
        if key.compensates or self.awaits(key):
            raise UnexpectedOutcome(f"{key} was not abandoned")
        self._item_ended(self._closed(key))
        return self._moved()

    def resolved(self, key: ItemKey) -> list[Move]:
        """The item was resolved by hand. It has no outputs; steps that only wait for it continue."""
        if key.compensates:
            return self._compensation_ended(key, "")
        run = self._closed(key)
        run.done += 1
        run.resolved = True
        self._item_ended(run)
        return self._moved()

    def more(self) -> list[Move]:
        """The next moves of those that were too many for one turn."""
        while self._rest and self._room:
            self._take(self._rest[0])
            if self._room:
                self._rest.popleft()
        return self._made()

    # Items

    def _closed(self, key: ItemKey) -> StepRun:
        run = self._runs.get(key.step)
        if run is None or key.index not in run.open:
            raise UnexpectedOutcome(f"{key} is not open")
        run.open.remove(key.index)
        self._open -= 1
        return run

    def _item_ended(self, run: StepRun) -> None:
        if run.open or run.state != "running" or (run.started < run.inputs.count and not run.is_abandoned):
            return
        if run.done < run.inputs.count:
            self._finish_step(run, "abandoned", "no longer needed")
        elif run.resolved:
            self._finish_step(run, "resolved", "resolved by hand")
        else:
            self._complete(run)

    def _complete(self, run: StepRun) -> None:
        self._values.update(run.outputs())
        self._finish_step(run, "completed", "")

    def _fail(self, run: StepRun, why: str, item: ItemKey | None) -> None:
        run.cause = Cause(run.spec.name, item, why)
        self._abandon_items(run)
        self._finish_step(run, "failed", why)

    def _abandon_items(self, run: StepRun) -> None:
        if not run.is_abandoned:
            run.is_abandoned = True
            self._make(self._abandoned_items(run))

    def _abandoned_items(self, run: StepRun) -> Iterator[Move]:
        for index in sorted(run.open):
            if index in run.open:
                yield Abandon(ItemKey(run.spec.name, index))

    # Steps

    def _begin(self, run: StepRun) -> None:
        """All steps before it have ended: start it, skip it, or fail it."""
        if run.unprovided:
            self._finish_step(run, "skipped", f"step {run.unprovided} did not provide its input")
            return
        try:
            run.inputs = ItemInputs(run.spec, self._values)
            if run.spec.when and not holds(run.spec.when, run.inputs.whole):
                self._finish_step(run, "skipped", f"when is false: {run.spec.when}")
                return
        except (UnfitInput, ConditionError) as error:
            self._fail(run, str(error), None)
            return
        run.state = "running"
        run.results = [{}] * run.inputs.count
        if run.inputs.count:
            self._ready.append(run)
        else:
            self._complete(run)

    def _finish_step(self, run: StepRun, state: StepState, why: str) -> None:
        run.state, run.why = state, why
        self._moves.append(Settled(run.spec.name, state, why))
        self._settled.append(run)
        if not run.is_goal or self._over:
            return
        self._goals_left -= 1
        if state in _LOST:
            self._over = True
            self._lost = run.cause
        elif self._goals_left == 0:
            self._over = True

    def _update_followers(self, run: StepRun) -> None:
        for follower, edge in run.followers:
            follower.waits -= 1
            if follower.state != "pending":
                continue
            if run.state in _LOST and edge.needed:
                follower.cause = run.cause
                self._finish_step(follower, "unreachable", f"step {run.spec.name} {_IN_WORDS[run.state]}")
                continue
            if run.state in ("skipped", "resolved") and edge.data:
                follower.unprovided = follower.unprovided or run.spec.name
            if follower.waits == 0 and not self._over:
                self._begin(follower)

    def _update_steps_before(self, run: StepRun) -> None:
        for edge in run.edges:
            before = self._runs[edge.step]
            before.needed_by -= 1
            if before.needed_by == 0 and not before.is_goal:
                self._abandon_step(before)

    def _abandon_step(self, run: StepRun) -> None:
        """No unfinished step needs this one any more."""
        if run.state == "pending" or (run.state == "running" and not run.open):
            self._finish_step(run, "abandoned", "no longer needed")
        elif run.state == "running":
            self._abandon_items(run)

    # Moves

    def _moved(self) -> list[Move]:
        """All moves that follow from an outcome. Items start last, so that none is abandoned as it starts."""
        self._propagate()
        if self._over and not self._rest_abandoned:
            self._rest_abandoned = True
            for run in self._runs.values():
                self._abandon_step(run)
            self._propagate()
        ready, self._ready = self._ready, []
        for run in ready:
            if run.state == "running":
                self._make(self._started_items(run))
        if self._over and not self._open and not self._finished:
            self._end()
        return self._made()

    def _make(self, moves: Iterator[Move]) -> None:
        """Make as many of the moves as there is room for in this turn; the rest follows with `more`."""
        if not self._rest:
            self._take(moves)
        if not self._room or self._rest:
            self._rest.append(moves)

    def _take(self, moves: Iterator[Move]) -> None:
        taken = list(islice(moves, self._room))
        self._moves += taken
        self._room -= len(taken)

    def _made(self) -> list[Move]:
        moves, self._moves = self._moves, []
        self._room = MOVES_AT_ONCE
        return moves

    def _propagate(self) -> None:
        while self._settled:
            run = self._settled.popleft()
            self._update_followers(run)
            self._update_steps_before(run)

    def _started_items(self, run: StepRun) -> Iterator[Move]:
        for index in range(run.inputs.count):
            if run.state != "running" or run.is_abandoned:
                return
            run.open.add(index)
            run.started += 1
            self._open += 1
            yield StartItem(ItemKey(run.spec.name, index), run.spec, run.inputs.of_item(index))

    def _end(self) -> None:
        if self._lost is not None:
            self._compensate_next()
            return
        outputs: dict[str, Any] = {}
        for run in self._runs.values():
            if run.is_goal and run.state == "completed":
                outputs |= run.outputs()
        self._finished = True
        self._moves.append(Finish(True, outputs, None, "", False))

    # Compensation

    def _compensation_ended(self, key: ItemKey, why: str) -> list[Move]:
        if key not in self._compensation.open:
            raise UnexpectedOutcome(f"{key} is not open")
        self._compensation.end(key, why)
        self._finish_compensated_step(key.step)
        if not self._compensation.open:
            self._compensate_next()
        return self._made()

    def reopen_compensation(self, key: ItemKey) -> None:
        """A compensation that failed is tried again, after all others have ended."""
        self._compensation.reopen(key)
        self._runs[key.step].state, self._runs[key.step].why = "compensating", ""
        self._finished = False

    def _compensate_next(self) -> None:
        while (item := self._compensation.next()) is not None:
            run = self._runs[item.key.step]
            try:
                inputs = item.inputs(self._values)
            except UnfitInput as error:
                self._compensation.end(item.key, f"step {item.spec.name}: {error}")
                self._finish_compensated_step(item.key.step)
                continue
            if run.state == "completed":
                run.state = "compensating"
            self._moves.append(StartItem(item.key, item.spec, inputs))
            return
        self._finished = True
        lost = self._lost or Cause("", None, "")
        why = f"step {lost.step} failed: {lost.why}"
        self._moves.append(Finish(False, {}, lost.item, why, self._compensation.is_complete))

    def _finish_compensated_step(self, step: str) -> None:
        """Record the state of a step whose compensations have all ended."""
        run = self._runs[step]
        if self._compensation.left(step) or run.state not in ("completed", "compensating"):
            return
        why = self._compensation.failure(step)
        run.state, run.why = ("uncompensated" if why else "compensated"), why
        self._moves.append(Settled(step, run.state, run.why))


_IN_WORDS = {"failed": "failed", "unreachable": "cannot be reached", "abandoned": "was abandoned"}
