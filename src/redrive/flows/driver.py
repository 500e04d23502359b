"""The interface between the engine and a definition: events go in, commands come out, and no I/O happens.

It has four implementations: workflows, scripts, graphs and jobs.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Protocol

from redrive.errors import SignalRefusedError, UnknownHandlerError
from redrive.flows.action import ACTIONS, Action, Executor, action_named
from redrive.flows.child_events import ChildEnd
from redrive.flows.commands import Command, ScheduleItem, StartChild, StartTimer
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.message_events import SignalWait
from redrive.flows.values.signature import NOT_READ

Handler = Action[Any, Any] | HttpHandler
"""What carries out the attempts of a step."""

NO_ACTIONS: frozenset[str] = frozenset()


class Driver(Protocol):
    """Advances one flow. `at` is the time of the event, in epoch seconds.

    By default the flow has no timers, and each of its steps is an action of that name.
    """

    __slots__ = ()

    has_steps: ClassVar[bool] = False
    """Whether steps are declared: they may then limit how many of their items run, and restrict their results."""

    has_more: bool = False
    """Whether the last events have more commands, which `more` returns: no turn has so many that it holds the loop."""

    # Events: each returns the commands that follow from it, in order.

    @abstractmethod
    def start(self, at: float) -> list[Command]:
        """Raises DeserializationError when the flow's input does not fit the definition."""

    @abstractmethod
    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        """`read` is the decoded result, where it is known already."""

    @abstractmethod
    def failed(self, item: int, error: BaseException, at: float) -> list[Command]:
        """The item failed for good."""

    @abstractmethod
    def resolved(self, item: int, at: float) -> list[Command]:
        """The item was resolved by hand, without a result."""

    @abstractmethod
    def cancel(self, at: float) -> list[Command]: ...

    def item_cancelled(self, item: int, at: float) -> list[Command]:
        """The item was cancelled, as a CancelItem with `lets_attempt_finish` asked for."""
        return []

    def reopened(self, item: int) -> None:
        """The failed item, a compensation, is open again. The flow had ended."""
        return

    def fired(self, timer: int, at: float) -> list[Command]:
        return []

    def child_ended(self, event: ChildEnd, at: float) -> list[Command]:
        return []

    def signalled(self, name: str, args: str, mailbox: bool, at: float) -> list[Command]:
        """The signal came, and `check_signal` had said whether it is for the mailbox."""
        return []

    def updated(self, id: str, name: str, args: str, at: float) -> list[Command]:  # noqa: A002 - as the event calls it
        """The update was accepted."""
        return []

    def more(self, at: float) -> list[Command]:
        """Continue a turn that has more commands."""
        return []

    # What the engine tells the driver about its commands

    @abstractmethod
    def bind_item(self, command: ScheduleItem, item: int) -> None:
        """The scheduled item has this number in the log."""

    def bind_timer(self, command: StartTimer, timer: int) -> None:
        """The timer has this number in the log."""
        return

    def bind_child(self, command: StartChild, child: int, flow_id: str, at: float) -> list[Command]:
        """The child has this number in the log, and this id. Returns the commands that follow."""
        return []

    def replay(self, patches: set[str] | None, anew: bool = False) -> None:
        """The following events are replayed from the log, where these patches are marked. None ends the replay.

        `anew`: a redrive repeats this part of the log, so that other commands than those in the log may follow.
        """
        return

    def discard(self) -> None:
        """Release what the flow's code holds. No event follows."""
        return

    # What the engine asks the driver

    def awaits_item(self, item: int) -> bool:
        """Whether the outcome of the item still matters; if not, a failed attempt is not retried."""
        return True

    def awaits_timer(self, timer: int) -> bool:
        return False

    def check_signal(self, name: str, args: str) -> bool:
        """Whether the signal is for the mailbox, and not for a handler; SignalRefusedError when neither takes it."""
        raise SignalRefusedError("it runs a single action, which takes no signals")

    def misfit_of_update(self, name: str, args: str) -> str:
        """Why no handler takes such an update; empty when one does."""
        return "only workflows take updates"

    def check_update(self, name: str, args: str) -> None:
        """SignalRefusedError unless a handler takes the update, and its validator agrees."""
        raise SignalRefusedError(self.misfit_of_update(name, args))

    def query(self, name: str, args: str) -> str:
        """The answer to a query, as JSON; UnknownHandlerError, or WorkflowCodeError when it is not only read."""
        raise UnknownHandlerError("query", name, "only workflows have them")

    @property
    def awaits_signals(self) -> bool:
        """Whether a signal may let the flow go on when nothing else does."""
        return False

    def signal_waits(self) -> tuple[SignalWait, ...]:
        """The places in the flow's code that wait for signals."""
        return ()

    def unread_signals(self) -> list[str]:
        """The names of the signals that came, and that nobody has read."""
        return []

    def required_actions(self) -> frozenset[str]:
        """The actions that the flow may need, where that is known before it starts."""
        return NO_ACTIONS

    def handler(self, step: str) -> Handler:
        """Raises UnknownDefinitionError when this process does not have the handler."""
        return ACTIONS.by_name.get(step) or action_named(step)

    def executor(self, step: str) -> Executor:
        """Where attempts of the step run; "loop" for an unknown action, which fails when its attempt starts."""
        action = ACTIONS.by_name.get(step)
        return "loop" if action is None else action.executor

    def parallelism(self, step: str) -> int | None:
        """How many items of the step may run at the same time in this flow; None is unlimited."""
        return None

    def dependency(self, step: str) -> str | None:
        """What the step talks to, unless its call says otherwise."""
        action = ACTIONS.by_name.get(step)
        return None if action is None else action.dependency

    def accept(self, item: int, result: str) -> str:
        """The handler's result as the log keeps it; raises ValueError when it is not what the step declares."""
        return result
