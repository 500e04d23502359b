"""Run a graph: turn the moves of its progress into commands."""

from functools import cached_property
from typing import Any, ClassVar

import msgspec

from redrive.errors import DeserializationError, GraphFailedError, NotationError, Permanent
from redrive.flows.action import Executor, action_named
from redrive.flows.commands import CancelItem, Command, EndFlow, ScheduleItem, SettleStep
from redrive.flows.driver import NO_ACTIONS, Driver, Handler
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem
from redrive.flows.graphs.outputs import outputs_of
from redrive.flows.graphs.progress import GraphProgress, StepStatus
from redrive.flows.graphs.spec import ActionHandler, GraphInput, HttpHandler, StepSpec
from redrive.flows.graphs.stored_graph import plan_actions, read_graph_input
from redrive.flows.stored_policy import read_stored_policy
from redrive.flows.values.signature import NOT_READ
from redrive.policies.policy import Policy

LONGEST_CALLBACK = 3600.0
"""Seconds that an asynchronous step has for its callback, unless it has a timeout."""

COMPENSATED = "compensated"
"""The kind of a dead letter whose completed work was compensated: it cannot be redriven from where it failed."""

_encode = msgspec.json.encode


class GraphCancelled(Permanent):
    """Raised by a step to end the whole flow, without an error and without compensation."""


class GraphDriver(Driver):
    has_steps: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        self._text = text
        self._input: GraphInput | None = None
        self._progress: GraphProgress
        self._policies: dict[str, Policy] = {}
        self._commands: dict[ItemKey, ScheduleItem] = {}
        self._keys: dict[int, ItemKey] = {}
        self._errors: dict[ItemKey, BaseException] = {}
        self._failed_compensations: dict[int, ScheduleItem] = {}
        self._has_compensated = False
        self.has_more = False
        self._started: set[str] = set()
        """Steps with items: the completion of the last one implies that of the step."""

    def start(self, at: float) -> list[Command]:
        read = self._read_input()
        self._progress = GraphProgress(read.plan, read.inputs)
        return self._commands_for(self._progress.start())

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        key = self._close(item)
        return self._commands_for(self._progress.completed(key, msgspec.json.decode(result)))

    def failed(self, item: int, error: BaseException, at: float) -> list[Command]:
        command = self._commands[self._keys[item]]
        key = self._close(item)
        if key.compensates:
            self._failed_compensations[item] = command
        if not self._progress.awaits(key):
            return self._commands_for(self._progress.abandoned(key))
        if isinstance(error, GraphCancelled):
            return [EndFlow("cancelled", why=str(error))]
        self._errors[key] = error
        return self._commands_for(self._progress.failed(key, f"{type(error).__name__}: {error}"))

    def resolved(self, item: int, at: float) -> list[Command]:
        return self._commands_for(self._progress.resolved(self._close(item)))

    def reopened(self, item: int) -> None:
        self.bind_item(self._failed_compensations.pop(item), item)
        self._progress.reopen_compensation(self._keys[item])

    def item_cancelled(self, item: int, at: float) -> list[Command]:
        return self._commands_for(self._progress.abandoned(self._close(item)))

    def more(self, at: float) -> list[Command]:
        return self._commands_for(self._progress.more())

    def cancel(self, at: float) -> list[Command]:
        return [EndFlow("cancelled")]

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        command.item = item
        key = ItemKey(command.compensates or command.step, command.index, bool(command.compensates))
        self._keys[item] = key
        self._commands[key] = command

    def awaits_item(self, item: int) -> bool:
        key = self._keys.get(item)
        return key is not None and self._progress.awaits(key)

    @property
    def states(self) -> dict[str, StepStatus]:
        """The state of each step."""
        return self._progress.states

    def required_actions(self) -> frozenset[str]:
        try:
            return plan_actions(self._read_input().plan)
        except DeserializationError:
            # The flow fails with this error when it starts.
            return NO_ACTIONS

    def handler(self, step: str) -> Handler:
        handler = self._specs[step].handler
        return action_named(handler.action) if isinstance(handler, ActionHandler) else handler

    def executor(self, step: str) -> Executor:
        handler = self._specs[step].handler
        return super().executor(handler.action) if isinstance(handler, ActionHandler) else "loop"

    def parallelism(self, step: str) -> int | None:
        return self._specs[step].parallelism

    def dependency(self, step: str) -> str | None:
        spec = self._specs[step]
        if spec.dependency is None and isinstance(spec.handler, ActionHandler):
            return super().dependency(spec.handler.action)
        return spec.dependency

    def accept(self, item: int, result: str) -> str:
        command = self._commands[self._keys[item]]
        return _encode(outputs_of(self._specs[command.step], msgspec.json.decode(result))).decode()

    @cached_property
    def _specs(self) -> dict[str, StepSpec]:
        """The steps by name. Read when needed: a flow that is cancelled by force is reported without being started."""
        plan = self._read_input().plan
        return {spec.name: spec for spec in (*plan.steps, *plan.compensations)}

    def _read_input(self) -> GraphInput:
        if self._input is None:
            self._input = read_graph_input(self._text)
        return self._input

    def _close(self, item: int) -> ItemKey:
        key = self._keys.pop(item)
        del self._commands[key]
        return key

    def _commands_for(self, moves: list[Move]) -> list[Command]:
        self.has_more = self._progress.has_more
        return [self._command(move) for move in moves if not self._is_implied(move)]

    def _is_implied(self, move: Move) -> bool:
        """Whether the log shows it already: a step is completed when all its items are."""
        return isinstance(move, Settled) and move.state == "completed" and move.step in self._started

    def _command(self, move: Move) -> Command:
        if isinstance(move, StartItem):
            key, spec = move.key, move.spec
            self._started.add(key.step)
            compensates = key.step if key.compensates else ""
            self._has_compensated = self._has_compensated or key.compensates
            args = _encode(move.inputs).decode()
            return ScheduleItem(spec.name, args, None, self._policy(spec), None, "", key.index, compensates)
        if isinstance(move, Abandon):
            return CancelItem(self._commands[move.key], lets_attempt_finish=True)
        if isinstance(move, Settled):
            return SettleStep(move.step, move.state, move.why)
        return self._end(move)

    def _end(self, move: Finish) -> Command:
        if move.completed:
            return EndFlow("completed", result=_encode(move.outputs).decode())
        error = self._errors.get(move.failed) if move.failed is not None else None
        kind = COMPENSATED if self._has_compensated else "graph" if error is None else None
        return EndFlow("failed", error=error or GraphFailedError(move.why), kind=kind)

    def _policy(self, spec: StepSpec) -> Policy:
        policy = self._policies.get(spec.name)
        if policy is None:
            try:
                policy = read_stored_policy(spec.policy)
            except NotationError as error:
                raise DeserializationError(f"the policy of step {spec.name} cannot be read: {error}") from None
            if isinstance(spec.handler, HttpHandler) and spec.handler.mode == "async":
                policy = policy if policy.attempt_timeout else policy.replace(attempt_timeout=LONGEST_CALLBACK)
            self._policies[spec.name] = policy
        return policy
