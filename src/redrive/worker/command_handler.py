"""What a flow's code asks for, carried out: work items, timers, that something is dropped, its end."""

from redrive.flows.commands import CancelItem, Command, EndFlow, MarkPatch, ScheduleItem, SettleStep, StartTimer
from redrive.flows.events import ItemCancelled, PatchMarked, StepSettled, TimerSet
from redrive.flows.flow_end import end_event
from redrive.flows.history import Item
from redrive.worker.attempt_starts import AttemptStarts


class CarriedOut(AttemptStarts):
    """Logged first; what must wait until that is durable is left with the journal."""

    __slots__ = ()

    def take(self, commands: list[Command], at: float) -> None:
        """Log what the flow's code asks for, and have it carried out."""
        for command in commands:  # which may grow
            if isinstance(command, ScheduleItem):
                self.add_item(command, at)
            elif isinstance(command, StartTimer):
                timer = self.history.last_timer + 1
                self.driver.bind_timer(command, timer)
                self.log(at, TimerSet(timer=timer, until=command.time))
            elif isinstance(command, CancelItem):
                if self._cancel_item(command, at) and command.lets_attempt_finish:
                    commands += self.driver.item_cancelled(command.scheduled.item, at)
            elif isinstance(command, SettleStep):
                self.log(at, StepSettled(step=command.step, state=command.state, why=command.why))
            elif isinstance(command, MarkPatch):
                self.log(at, PatchMarked(patch=command.name))
            else:
                self._end(command, at)
                return

    def _cancel_item(self, command: CancelItem, at: float) -> bool:
        """Whether it was cancelled: not when it has ended, nor when an attempt is under way that may end."""
        item = self.history.items.get(command.scheduled.item)
        if item is None or not item.is_open or (command.lets_attempt_finish and item.state == "running"):
            return False
        self.let_go(item)
        self.log(at, ItemCancelled(item=item.number))
        self.item_done(item)
        return True

    def let_go(self, item: Item) -> None:
        """Stop what the item is doing: its attempt, standing in line, waiting."""
        if item.state == "running" and not item.accepted:
            self.active -= 1
            self.desk.under_way.stop(self.id, item.number)
        elif item.number in self.in_line:
            self.active -= 1
            del self.in_line[item.number]
        self.waits.retries.pop(item.number, None)
        self.waits.callbacks.pop(item.number, None)

    def _end(self, command: EndFlow, at: float) -> None:
        # First: the places of what is stopped go to whoever stands in line.
        self.leave_line()
        for item in self.history.items.values():
            if item.state == "running" and not item.accepted:
                self.desk.under_way.stop(self.id, item.number)
            if item.is_open:
                self.item_done(item)
        event = end_event(command, self.history)
        self.log(at, event)
        self.driver.discard()
        self.active = 0
        self.desk.ended(self, event)
        self.release(command.outcome, None, at)

    def item_done(self, item: Item) -> None:
        if item.number in self.shown or item.details is not None or item.number in self.heartbeats:
            self.shown.pop(item.number, None)
            self.desk.journal.drop_retry(self.id, item.number)
            self.heartbeats.pop(item.number, None)
