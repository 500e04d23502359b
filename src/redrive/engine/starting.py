"""Add flows to the store: those asked for at the same time share one transaction."""

import asyncio
from typing import Any

import msgspec

from redrive.flows.registry import GRAPH, SCRIPT
from redrive.stores.errors import StoreError
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow

ADDED_AT_ONCE = 500


class KeyTaken(ValueError):
    """A flow with this key exists already, and it was started with something else."""

    def __init__(self, new: NewFlow, known: FlowRecord) -> None:
        super().__init__(
            f"key {new.key!r} belongs to {known.definition} {known.id}, which was started with another input; "
            "use another key, or the same input"
        )
        self.flow_id = known.id


class Starter:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[NewFlow, asyncio.Future[str]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, flow: NewFlow) -> str:
        """The id of the flow: the new one's, or that of the flow which has its key and was started with the same."""
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((flow, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._add_all())
        return await done

    async def _add_all(self) -> None:
        try:
            while self._waiting:
                now, self._waiting = self._waiting[:ADDED_AT_ONCE], self._waiting[ADDED_AT_ONCE:]
                await self._add(now)
        finally:
            self._task = None

    async def _add(self, asked: "list[tuple[NewFlow, asyncio.Future[str]]]") -> None:
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
    except KeyTaken as error:
        done.set_exception(error)


def started(flow: NewFlow, known: Any) -> str:
    """The id of a flow that was to be added, given what was there already; KeyTaken when that is another."""
    if known is None:
        return flow.id
    if known.input != flow.input and not _asks_for_the_same(flow, known):
        raise KeyTaken(flow, known)
    flow_id: str = known.id
    return flow_id


class _Plan(msgspec.Struct):
    goals: msgspec.Raw = msgspec.Raw(b"[]")


class _Asked(msgspec.Struct):
    """What someone asked for, of all that a flow of a script or of a graph is started with."""

    plan: _Plan = msgspec.field(default_factory=_Plan)
    function: str = ""
    inputs: msgspec.Raw = msgspec.Raw(b"{}")
    asked: tuple[str, ...] | None = None


_READ_ASKED = msgspec.json.Decoder(_Asked)


def _asks_for_the_same(flow: NewFlow, known: Any) -> bool:
    """Whether only the text of the script, or the steps of the graph, have changed since."""
    if not flow.definition.startswith((SCRIPT, GRAPH)):
        return False
    # They are written in one order, so that what is equal is equal in bytes: 1 is not 1.0, nor true.
    one, other = _READ_ASKED.decode(flow.input), _READ_ASKED.decode(known.input)
    if (one.function, bytes(one.inputs)) != (other.function, bytes(other.inputs)):
        return False
    if one.asked is not None and one.asked == other.asked:
        # A graph's own goals may have changed with its steps.
        return True
    return bytes(one.plan.goals) == bytes(other.plan.goals)
