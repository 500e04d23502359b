"""Add flows to the store: those asked for at the same time share one transaction."""

import asyncio
from typing import Any

import msgspec

from redrive.errors import DeserializationError, KeyTakenError, StoreError, UnknownDefinitionError
from redrive.flows.job import read_job
from redrive.flows.registry import ACTION, GRAPH, SCRIPT, WORKFLOW, action_named, workflow_named
from redrive.flows.stored_policy import write_stored_policy
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow

ADDED_AT_ONCE = 500


_Asked = tuple[NewFlow, "asyncio.Future[str]"]


class Starter:
    def __init__(self, store: Store) -> None:
        self._store = store
        # By whether they have a key. That may be one which someone adds in a transaction of their own; who has none
        # does not wait for its end.
        self._waiting: dict[bool, list[_Asked]] = {True: [], False: []}
        self._adding: dict[bool, asyncio.Task[None]] = {}

    async def add(self, flow: NewFlow) -> str:
        """The id of the flow: the new one's, or that of the flow which has its key and was started with the same."""
        loop, has_key = asyncio.get_running_loop(), flow.key is not None
        done: asyncio.Future[str] = loop.create_future()
        self._waiting[has_key].append((flow, done))
        if has_key not in self._adding:
            self._adding[has_key] = loop.create_task(self._add_all(has_key))
        return await done

    async def _add_all(self, has_key: bool) -> None:
        waiting = self._waiting[has_key]
        try:
            while waiting:
                now = waiting[:ADDED_AT_ONCE]
                del waiting[:ADDED_AT_ONCE]
                await self._add(now)
        finally:
            del self._adding[has_key]

    async def _add(self, asked: list[_Asked]) -> None:
        try:
            answers = await self._store.add_flows([flow for flow, _ in asked])
        except Exception as error:  # noqa: BLE001 - for those who asked
            if len(asked) > 1 and type(error) is StoreError:
                # It refuses one of them, and that is no matter of the others.
                for one in asked:
                    await self._add([one])
                return
            for _, done in asked:
                if not done.done():
                    done.set_exception(error)
            return
        for (flow, done), known in zip(asked, answers, strict=True):
            _answer(flow, done, known)


def _answer(flow: NewFlow, done: "asyncio.Future[str]", known: FlowRecord | None) -> None:
    if done.done():
        return
    try:
        done.set_result(started(flow, known))
    except Exception as error:  # noqa: BLE001 - for the one who asked: the others wait for their answers
        done.set_exception(error)


def started(flow: NewFlow, known: Any) -> str:
    """The id of a flow that was to be added, given what was there already; KeyTakenError when that is another."""
    if known is None:
        return flow.id
    if known.input != flow.input and not _asks_for_the_same(flow, known):
        raise KeyTakenError(flow.key, known.definition, known.id)
    flow_id: str = known.id
    return flow_id


class _Plan(msgspec.Struct):
    goals: msgspec.Raw = msgspec.Raw(b"[]")


class _AskedFor(msgspec.Struct):
    """What someone asked for, of all that a flow of a script or of a graph is started with."""

    plan: _Plan = msgspec.field(default_factory=_Plan)
    function: str = ""
    inputs: msgspec.Raw = msgspec.Raw(b"{}")
    asked: tuple[str, ...] | None = None


_READ_ASKED = msgspec.json.Decoder(_AskedFor)


def _asks_for_the_same(flow: NewFlow, known: Any) -> bool:
    """Whether only the text of the script, or the steps of the graph, have changed since; or the order of a set."""
    if not flow.definition.startswith((SCRIPT, GRAPH)):
        return _has_the_same_arguments(flow, known)
    # They are written in one order, so that what is equal is equal in bytes: 1 is not 1.0, nor true.
    try:
        one, other = _READ_ASKED.decode(flow.input), _READ_ASKED.decode(known.input)
    except msgspec.MsgspecError:
        return False
    if (one.function, bytes(one.inputs)) != (other.function, bytes(other.inputs)):
        return False
    if one.asked is not None and one.asked == other.asked:
        # A graph's own goals may have changed with its steps.
        return True
    return bytes(one.plan.goals) == bytes(other.plan.goals)


def _has_the_same_arguments(flow: NewFlow, known: Any) -> bool:
    try:
        if flow.definition.startswith(WORKFLOW):
            signature = workflow_named(flow.definition.removeprefix(WORKFLOW)).signature
            return signature.says_the_same(known.input, flow.input)
        now, then = read_job(flow.input), read_job(known.input)
        action = action_named(flow.definition.removeprefix(ACTION))
    except (UnknownDefinitionError, DeserializationError):
        return False
    # The action's own policy was not asked for, and may be another one in the next version of the code.
    own = bytes(write_stored_policy(action.policy))
    same_policy = bytes(now.policy) in (own, bytes(then.policy))
    return same_policy and action.signature.says_the_same(bytes(then.args).decode(), bytes(now.args).decode())
