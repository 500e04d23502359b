"""What a flow in memory needs of the worker that owns it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from redrive.determinism.dice import Dice
from redrive.flows.action import Executor
from redrive.flows.commands import ScheduleItem
from redrive.flows.events import AnyEvent, AttemptFailed, ItemGaveUp
from redrive.flows.history import Item
from redrive.worker.dependency_guard import DependencyGuard
from redrive.worker.journal import Journal
from redrive.worker.running_attempts import UnderWay
from redrive.worker.slots import Places

if TYPE_CHECKING:
    from redrive.worker.attempt_starts import AttemptStarts
    from redrive.worker.flow_run import FlowRun
    from redrive.worker.owned_flow import OwnedFlow


class Desk(Protocol):
    """A worker, to its flows."""

    journal: Journal
    dice: Dice
    guard: DependencyGuard
    places: Places
    under_way: UnderWay

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that nobody sets."""
        ...

    def queue_for_place(self, run: "AttemptStarts", item: int) -> None: ...

    def begin(self, run: "AttemptStarts", item: Item, executor: Executor, command: ScheduleItem | None = None) -> None:
        """Have the attempt made in the place taken for it, now that its start is durable."""
        ...

    def after_mail(self, call: Callable[[], None]) -> None:
        """Call back once all mail that there is has been delivered."""
        ...

    def rebuild(self, run: "FlowRun") -> None:
        """Have the flow built anew from its log, with what the mail says about items that failed."""
        ...

    def hand_on(self, run: "FlowRun", missing: Sequence[str], has_mail: bool) -> None:
        """The run needs these actions, which are not known here: others may have it."""
        ...

    def wake_at(self, when: float, run: "FlowRun") -> None:
        """Ring the run at that time, unless it has left memory."""
        ...

    def look_for_flows_at(self, when: float) -> None:
        """One that was given back wakes then: not all stores tell their own worker so."""
        ...

    def attempt_failed(self, run: "FlowRun", item: Item, event: AttemptFailed | ItemGaveUp) -> None:
        """An attempt failed, or the item is given up later: that is about to be durable."""
        ...

    def ended(self, run: "OwnedFlow", event: AnyEvent) -> None:
        """The run's last event is about to be durable."""
        ...

    def forget(self, run: "OwnedFlow") -> None:
        """It is no longer ours."""
        ...

    def keeps_idle(self, run: "FlowRun") -> bool:
        """Whether there is room to keep it in memory while it waits for a little."""
        ...
