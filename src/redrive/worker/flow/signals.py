"""Hand signals to a flow's code, or keep them in its log until it can take them."""

from redrive.errors import SignalRefusedError, TypeHintError
from redrive.failures.redaction import redact
from redrive.flows.driver import Driver
from redrive.flows.history import FlowHistory
from redrive.flows.message_events import (
    SignalBuffered,
    SignalReceived,
    SignalRefused,
    SignalsAwaited,
)
from redrive.flows.messages import Signal
from redrive.worker.flow.command_handler import CommandHandler
from redrive.worker.flow.flow_log import FlowLog


class Signals:
    """The signals of one flow in memory."""

    __slots__ = ("_commands", "_driver", "_log")

    def __init__(self, log: FlowLog, driver: Driver, commands: CommandHandler) -> None:
        self._log = log
        self._driver = driver
        self._commands = commands

    def receive(self, said: Signal, at: float, runs_code: bool) -> None:
        """Take a signal from the inbox, unless it was sent twice.

        runs_code: whether the flow's code may run now, so that it receives the signal at once.
        """
        log = self._log
        if said.id in log.history.messages.known:
            return
        signal = buffered(said)
        if not runs_code:
            log.append(at, signal)
            return
        self.deliver_buffered(at)
        if log.released:
            log.append(at, signal)
        else:
            self._deliver(signal, at)

    def deliver_buffered(self, at: float) -> None:
        """Hand the signals that had to wait to the flow's code, in their order."""
        for signal in list(self._log.history.messages.buffered.values()):
            if not self._log.released:
                self._deliver(signal, at)

    def _deliver(self, signal: SignalBuffered, at: float) -> None:
        log, args = self._log, bytes(signal.args).decode()
        try:
            mailbox = self._driver.check_signal(signal.signal, args)
        except SignalRefusedError as error:
            log.append(at, SignalRefused(id=signal.id, signal=signal.signal, why=redact(str(error), 1000)))
            return
        except TypeHintError as error:
            if signal.id not in log.history.messages.buffered:
                log.append(at, signal)
            log.park(str(error))
            return
        log.append(
            at,
            SignalReceived(id=signal.id, signal=signal.signal, args=signal.args, by=signal.by, mailbox=mailbox),
        )
        self._commands.handle(self._driver.signalled(signal.signal, args, mailbox, at), at)

    def note_awaited(self, at: float) -> None:
        """Log what the flow's code waits for, if that has changed."""
        waits = self._driver.signal_waits()
        if waits != self._log.history.messages.awaited:
            self._log.append(at, SignalsAwaited(waits=waits))


def keep(log: FlowLog, known: FlowHistory, said: Signal) -> SignalBuffered | None:
    """Log a signal to a flow that cannot run now; return None for one that was sent twice.

    known: the state of the flow by its log; `log.history` may be incomplete.
    """
    if said.id in known.messages.known:
        return None
    event, at = buffered(said), log.now()
    log.append_applied(at, event)
    known.apply(at, event)
    return event


def buffered(said: Signal) -> SignalBuffered:
    return SignalBuffered(id=said.id, signal=said.name, args=said.args, by=said.by)
