"""Reads flows from the store and leaves messages in their inboxes."""

from collections.abc import Callable, Sequence

from msgspec import Raw

from redrive.client.loop_affinity import LoopAffinity
from redrive.client.readable_payloads import refuse_unreadable
from redrive.determinism.clock import Clock, whole_microseconds
from redrive.determinism.ids import ordered_id
from redrive.determinism.off_loop import off_loop
from redrive.errors import CommitUnknownError, FlowFinishedError, FlowNotFoundError, InvalidStateError, NotationError
from redrive.flows.chunks import LONG_LOG
from redrive.flows.events import Line
from redrive.flows.history import fold
from redrive.flows.messages import AnyMessage, ChangePolicy, Signal, write_message
from redrive.flows.policy_change import changed_policy
from redrive.flows.values.json_form import is_storable
from redrive.flows.values.json_limits import LARGE_JSON
from redrive.stores.interface import Store
from redrive.stores.records import FINISHED, FlowRecord, FlowStatus, RetryQuery
from redrive.worker.event_rows import lines_of
from redrive.worker.store_retries import retry_until_available


class FlowAccess:
    """The store of one app, usable only in the event loop that opened it."""

    def __init__(
        self, store: Store, affinity: LoopAffinity, clock: Clock, new_id: Callable[[float], str] = ordered_id
    ) -> None:
        """new_id: makes the id of something that is created at the given time."""
        self.new_id = new_id
        self._store = store
        self._affinity = affinity
        self._clock = clock

    @property
    def store(self) -> Store:
        self._affinity.check()
        return self._store

    def check_loop(self) -> None:
        """RuntimeError outside the event loop that opened the app."""
        self._affinity.check()

    def now(self) -> float:
        """The time in epoch seconds, rounded to the microsecond as every store keeps it."""
        return whole_microseconds(self._clock.wall())

    def wall(self) -> float:
        return self._clock.wall()

    async def find(self, flow_id: str) -> FlowRecord:
        """Return the flow's row; FlowNotFoundError where there is none."""
        record = await self.store.find_flow(flow_id) if is_storable(flow_id) else None
        if record is None:
            raise FlowNotFoundError(flow_id, self._store.address)
        return record

    async def log(self, flow_id: str) -> list[Line]:
        """Return the flow's log, in order."""
        rows = (await self.store.read_events([flow_id]))[flow_id]
        return await off_loop(sum(len(row.body) for row in rows) > LARGE_JSON, lines_of, rows)

    async def check_waits_for_attempt(self, flow_id: str) -> None:
        """Raise FlowFinishedError or InvalidStateError unless a work item of the flow waits for its next attempt."""
        record = await self.find(flow_id)
        if record.status in FINISHED:
            raise FlowFinishedError(flow_id, record.status)
        if record.status in ("paused", "parked"):
            raise InvalidStateError(f"flow {flow_id} is {record.status}: resume it, so that it is attempted again")
        rows = await self.store.list_retries(RetryQuery(flow_id=flow_id))
        # Short waits are in the log alone.
        if any(row.status == "waiting" for row in rows) or await self._has_waiting_item(flow_id):
            return
        raise InvalidStateError(
            f"flow {flow_id} does not wait for a next attempt, so there is nothing to retry now; "
            f"see: redrive explain {flow_id}"
        )

    async def _has_waiting_item(self, flow_id: str) -> bool:
        lines = await self.log(flow_id)
        history = await off_loop(len(lines) > LONG_LOG, fold, lines)
        return any(item.state == "waiting" for item in history.items.values())

    async def check_change_of_policy(self, flow_id: str, change: ChangePolicy) -> None:
        """Raise FlowFinishedError or InvalidStateError unless work is open that can follow it."""
        record = await self.find(flow_id)
        if record.status in FINISHED:
            raise FlowFinishedError(flow_id, record.status)
        if record.status == "parked":
            raise InvalidStateError(f"flow {flow_id} is parked: resume it first, so that it takes another policy")
        lines = await self.log(flow_id)
        history = await off_loop(len(lines) > LONG_LOG, fold, lines)
        policies = [item.policy for item in history.items.values() if item.is_open and change.step in ("", item.step)]
        for policy in dict.fromkeys(policies):
            try:
                changed_policy(policy, change)
            except NotationError as error:
                raise InvalidStateError(f"flow {flow_id} has work whose policy it does not fit: {error}") from None
        if not policies:
            work = f"work of step {change.step!r}" if change.step else "work"
            raise InvalidStateError(
                f"flow {flow_id} has no {work} under way whose policy could be changed; see: redrive explain {flow_id}"
            )

    async def send(self, flow_id: str, message: AnyMessage) -> FlowStatus:
        """Leave a message in the flow's inbox; return the status that the flow had."""
        await refuse_unreadable(self.store)
        text = write_message(message)
        if not is_storable(flow_id) or (status := await self.store.send(flow_id, text, self.now())) is None:
            raise FlowNotFoundError(flow_id, self._store.address)
        return status

    async def send_signal(
        self, flow_id: str, name: str, arguments: str, signal_id: str | None = None, by: str = ""
    ) -> None:
        """Leave a signal in the flow's inbox; FlowFinishedError when the flow has ended without having it.

        signal_id: the flow takes a signal of the same id once; by default, a new one.
        """
        new_id = self.new_id(self.now()) if signal_id is None else signal_id
        await self.send_once(flow_id, Signal(id=new_id, name=name, args=Raw(arguments.encode()), by=by))

    async def send_once(self, flow_id: str, said: Signal) -> None:
        """Leave a signal or an update in the inbox, and again where that may have failed: its id is taken once."""
        try:
            status = await self.send(flow_id, said)
        except CommitUnknownError:
            status = await retry_until_available(self.store, self.send, flow_id, said)
        if status in FINISHED:
            lines = await self.log(flow_id)
            if said.id not in (await off_loop(len(lines) > LONG_LOG, fold, lines)).messages.known:
                raise FlowFinishedError(flow_id, status)


def ids_of(flow_ids: str | Sequence[str]) -> list[str]:
    """Return a list of ids, also where only one is given."""
    return [flow_ids] if isinstance(flow_ids, str) else list(flow_ids)
