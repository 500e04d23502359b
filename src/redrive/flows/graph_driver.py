"""A graph at work: the planner says what comes next, and this turns it into asks."""

from typing import Any

import msgspec

from redrive.errors import DeserializationError, GraphFailedError, NotationError, Permanent, UnknownDefinitionError
from redrive.flows.action import Place
from redrive.flows.asks import Ask, CancelAsk, EndAsk, ItemAsk, SettledAsk, TimerAsk
from redrive.flows.driver import NOTHING_KNOWN, Handler
from redrive.flows.graphs.moves import Abandon, Finish, ItemKey, Move, Settled, StartItem
from redrive.flows.graphs.outputs import outputs_of
from redrive.flows.graphs.progress import GraphProgress, StepStatus
from redrive.flows.graphs.spec import ActionHandler, GraphInput, HttpHandler, Plan, StepSpec
from redrive.flows.registry import action_named
from redrive.flows.stored_policy import read_stored_policy
from redrive.flows.values import NOT_READ
from redrive.policies.policy import Policy

LONGEST_CALLBACK = 3600.0
"""Seconds that an asynchronous step has to call back, where no timeout says otherwise."""

COMPENSATED = "compensated"
"""The kind of a dead letter whose work was undone, in whole or in part: to go on from there would be wrong."""

_encode = msgspec.json.encode
_MOST_KEPT = 100
_plans: dict[bytes, Plan] = {}


class GraphCancelled(Permanent):
    """Raised by a step: the whole flow is to end, without an error and with nothing undone."""


class _StoredInput(msgspec.Struct):
    plan: msgspec.Raw
    inputs: dict[str, object] = {}


def read_graph_input(text: str) -> GraphInput:
    """DeserializationError when it is none. Plans are few and used by many flows, so they are remembered."""
    try:
        stored = msgspec.json.decode(text, type=_StoredInput)
        raw = bytes(stored.plan)
        plan = _plans.get(raw)
        if plan is None:
            if len(_plans) >= _MOST_KEPT:
                _plans.clear()
            plan = _plans[raw] = msgspec.json.decode(raw, type=Plan)
    except msgspec.MsgspecError as error:
        raise DeserializationError(f"the graph of this flow cannot be read by this version: {error}") from None
    return GraphInput(plan=plan, inputs=stored.inputs)


def actions_of(plan: Plan) -> frozenset[str]:
    """Those that carry out its steps, and those that undo them."""
    handlers = [spec.handler for spec in (*plan.steps, *plan.compensations)]
    return frozenset(handler.action for handler in handlers if isinstance(handler, ActionHandler))


class GraphDriver:
    def __init__(self, text: str) -> None:
        self._input = text
        self._read: GraphInput | None = None
        self._progress: GraphProgress
        self._specs: dict[str, StepSpec] = {}
        self._policies: dict[str, Policy] = {}
        self._asks: dict[ItemKey, ItemAsk] = {}
        self._keys: dict[int, ItemKey] = {}
        self._errors: dict[ItemKey, BaseException] = {}
        self._undid = False
        self._begun: set[str] = set()
        """Steps that have items: when all of these are completed, so is the step."""

    def start(self, at: float) -> list[Ask]:
        read = self._read_input()
        self._specs = {spec.name: spec for spec in (*read.plan.steps, *read.plan.compensations)}
        self._progress = GraphProgress(read.plan, read.inputs)
        return self._asked(self._progress.start())

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Ask]:
        key = self._keys.pop(item)
        del self._asks[key]
        return self._asked(self._progress.completed(key, msgspec.json.decode(result)))

    def failed(self, item: int, error: BaseException, at: float) -> list[Ask]:
        key = self._keys.pop(item)
        del self._asks[key]
        if not self._progress.wants(key):
            return self._asked(self._progress.abandoned(key))
        if isinstance(error, GraphCancelled):
            return [EndAsk("cancelled", why=str(error))]
        self._errors[key] = error
        return self._asked(self._progress.failed(key, f"{type(error).__name__}: {error}"))

    def resolved(self, item: int, at: float) -> list[Ask]:
        key = self._keys.pop(item)
        del self._asks[key]
        return self._asked(self._progress.resolved(key))

    def dropped(self, item: int, at: float) -> list[Ask]:
        key = self._keys.pop(item)
        del self._asks[key]
        return self._asked(self._progress.abandoned(key))

    def fired(self, timer: int, at: float) -> list[Ask]:
        return []

    def cancel(self, at: float) -> list[Ask]:
        return [EndAsk("cancelled")]

    def bind_item(self, ask: ItemAsk, item: int) -> None:
        ask.item = item
        key = ItemKey(ask.undoes or ask.step, ask.index, bool(ask.undoes))
        self._keys[item] = key
        self._asks[key] = ask

    def bind_timer(self, ask: TimerAsk, timer: int) -> None:
        pass

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        pass

    def awaits_timer(self, timer: int) -> bool:
        return False

    def wants(self, item: int) -> bool:
        key = self._keys.get(item)
        return key is not None and self._progress.wants(key)

    def discard(self) -> None:
        pass

    @property
    def states(self) -> dict[str, StepStatus]:
        """What has become of each step."""
        return self._progress.states

    # How items are carried out

    def needs(self) -> frozenset[str]:
        try:
            return actions_of(self._read_input().plan)
        except DeserializationError:
            # It is told so when it begins.
            return NOTHING_KNOWN

    def handler(self, step: str) -> Handler:
        handler = self._specs[step].handler
        return action_named(handler.action) if isinstance(handler, ActionHandler) else handler

    def place(self, step: str) -> Place:
        try:
            handler = self.handler(step)
        except UnknownDefinitionError:
            # It will be told so when it is begun.
            return "loop"
        return "loop" if isinstance(handler, HttpHandler) else handler.place

    def at_once(self, step: str) -> int | None:
        return self._specs[step].parallelism

    def dependency(self, step: str) -> str | None:
        return self._specs[step].dependency

    def accept(self, item: int, result: str) -> str:
        ask = self._asks[self._keys[item]]
        return _encode(outputs_of(self._specs[ask.step], msgspec.json.decode(result))).decode()

    # Inside

    def _read_input(self) -> GraphInput:
        if self._read is None:
            self._read = read_graph_input(self._input)
        return self._read

    def _asked(self, moves: list[Move]) -> list[Ask]:
        return [self._ask(move) for move in moves if not self._goes_without_saying(move)]

    def _goes_without_saying(self, move: Move) -> bool:
        return isinstance(move, Settled) and move.state == "completed" and move.step in self._begun

    def _ask(self, move: Move) -> Ask:
        if isinstance(move, StartItem):
            key, spec = move.key, move.spec
            self._begun.add(key.step)
            undoes = key.step if key.undoes else ""
            self._undid = self._undid or key.undoes
            args = _encode(move.inputs).decode()
            return ItemAsk(spec.name, args, None, self._policy(spec), None, "", key.index, undoes)
        if isinstance(move, Abandon):
            return CancelAsk(self._asks[move.key], lets_run=True)
        if isinstance(move, Settled):
            return SettledAsk(move.step, move.state, move.why)
        return self._end(move)

    def _end(self, move: Finish) -> Ask:
        if move.completed:
            return EndAsk("completed", result=_encode(move.outputs).decode())
        error = self._errors.get(move.failed) if move.failed is not None else None
        kind = COMPENSATED if self._undid else "graph" if error is None else None
        return EndAsk("failed", error=error or GraphFailedError(move.why), kind=kind)

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
