"""Decide how an asynchronous attempt ended only after all outcomes reported for it have been read."""

import functools
from collections.abc import Callable

from redrive.errors import UnknownDefinitionError
from redrive.flows.driver import Driver
from redrive.flows.events import AttemptClosed
from redrive.flows.graphs.spec import HttpHandler
from redrive.flows.item import Item
from redrive.worker.flow.attempt_starter import AttemptStarter
from redrive.worker.flow.flow_log import FlowLog
from redrive.worker.timer_queue import Alarm

AfterInbox = Callable[[str, Callable[[], None]], None]
Judge = Callable[[Item, float], None]


class ReportGate:
    """Closes attempts, after which reports about them no longer count.

    The side that receives a report stores it first, and then reads the log. This side first stores in the log that the
    attempt is closed, and then reads the inbox. So either the report is seen here, or its receiver sees that it may be
    too late.
    """

    __slots__ = ("_after_inbox", "_alarm", "_driver", "_log", "_starter")

    def __init__(
        self, log: FlowLog, driver: Driver, starter: AttemptStarter, alarm: Alarm, after_inbox: AfterInbox
    ) -> None:
        """alarm: wakes the flow.

        after_inbox: calls back for a flow once all messages that are in the store now have been delivered.
        """
        self._log = log
        self._driver = driver
        self._starter = starter
        self._alarm = alarm
        self._after_inbox = after_inbox

    def is_for(self, item: Item) -> bool:
        """Whether the outcome of the item's attempts may be reported."""
        if not self._driver.has_steps:
            return False
        try:
            handler = self._driver.handler(item.step)
        except UnknownDefinitionError:
            return False
        return isinstance(handler, HttpHandler) and handler.mode == "async"

    def close(self, item: Item, judge: Judge) -> None:
        """Accept no more reports, apply those in the inbox, and let `judge` end the attempt if none of them has."""
        if item.accepted:
            # It counts as active until it is judged, so that the flow stays in memory.
            self._starter.active += 1
        if not item.closed:
            self._log.append(self._log.now(), AttemptClosed(item=item.number, attempt=item.attempt))
        read = functools.partial(self._judge, item, item.delivery, judge)
        self._log.journal.when_durable(self._log.flow_id, self._after_inbox, self._log.flow_id, read)

    def _judge(self, item: Item, delivery: str | None, judge: Judge) -> None:
        if self._log.released or item.state != "running" or item.delivery != delivery:
            return
        at = self._log.now()
        self._starter.active -= 1
        judge(item, at)
        if not self._log.released:
            # The flow may be idle now: it looks in a turn of its own.
            self._alarm.set(at)
