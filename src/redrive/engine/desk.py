"""What a flow in memory needs of the worker that owns it."""

from typing import TYPE_CHECKING, Protocol

from redrive.determinism.dice import Dice
from redrive.engine.journal import Journal
from redrive.flows.asks import ItemAsk
from redrive.flows.events import AnyEvent, AttemptFailed
from redrive.flows.history import Item

if TYPE_CHECKING:
    from redrive.engine.flow_run import FlowRun
    from redrive.engine.owned_flow import OwnedFlow


class Desk(Protocol):
    """A worker, to its flows."""

    journal: Journal
    dice: Dice

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def take_place(self, step: str) -> bool:
        """Whether an attempt of the action may begin now; a place is then taken for it."""
        ...

    def queue_for_place(self, run: "FlowRun", item: int) -> None: ...

    def begin(self, run: "FlowRun", item: Item, ask: ItemAsk | None) -> None:
        """Have the attempt made, now that its start is durable."""
        ...

    def stop_attempt(self, run: "FlowRun", item: Item) -> None: ...

    def wake_at(self, when: float, run: "FlowRun") -> None:
        """Ring the run at that time, unless it has left memory."""
        ...

    def attempt_failed(self, run: "FlowRun", item: Item, event: AttemptFailed) -> None: ...

    def ended(self, run: "FlowRun", event: AnyEvent) -> None:
        """The run's last event is about to be durable."""
        ...

    def forget(self, run: "OwnedFlow") -> None:
        """It is no longer ours."""
        ...

    def keeps_idle(self, run: "FlowRun") -> bool:
        """Whether there is room to keep it in memory while it waits for a little."""
        ...
