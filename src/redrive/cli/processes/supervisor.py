"""Supervise worker processes: restart those that crash, and pass signals on to all of them."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence

import typer

from redrive.cli.exit_codes import BAD_INPUT, STORE_TOO_NEW
from redrive.cli.processes.event_loop import RELEASE_TIME, SIGNALS
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.policies.backoff import Backoff

# A process that crashes soon after its start is restarted with backoff.
BACKOFF = Backoff("exponential", 0.5)
LONGEST_WAIT = 30.0
STABLE_AFTER = 60.0
STARTED_AFTER = 10.0


async def supervise(command_of: Callable[[int], Sequence[str]], count: int, grace: float) -> int:
    """Keep `count` processes running until a signal stops them, with the grace period.

    command_of: the command of each, by its number from 0.
    """
    supervisor = _Supervisor(command_of, grace + RELEASE_TIME)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, supervisor.stop, number)
    typer.echo(f"supervisor {os.getpid()}: {count} worker processes")
    await asyncio.gather(*(supervisor.keep_running(index) for index in range(count)))
    return BAD_INPUT if supervisor.refused else 0


class _Supervisor:
    def __init__(self, command_of: Callable[[int], Sequence[str]], patience: float) -> None:
        self._command_of = command_of
        self._patience = patience
        self._running: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._started = False
        self.refused = False
        """True if the processes refuse to start, so that restarting them is no use."""

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Pass a signal on: workers stop gracefully at the first one, and at once at the second.

        A second Ctrl-C kills them, since a worker cannot tell it from a repetition of the first signal.
        """
        if not self._stopping.is_set():
            asyncio.get_running_loop().call_later(self._patience, self._kill_the_rest)
        elif number == signal.SIGINT:
            number = signal.SIGKILL
        self._stopping.set()
        for process in self._running:
            _signal(process, number)

    def _kill_the_rest(self) -> None:
        for process in self._running:
            if process.returncode is None:
                typer.echo(
                    f"redrive: worker process {process.pid} did not stop within {self._patience:g} s and is killed; "
                    "other workers take over its flows when its lease has expired",
                    err=True,
                )
                process.kill()

    async def keep_running(self, index: int) -> None:
        crashes = 0
        while not self._stopping.is_set():
            began = SYSTEM_CLOCK.monotonic()
            code, pid = await self._run_one(index)
            if self._stopping.is_set():
                return
            lasted = SYSTEM_CLOCK.monotonic() - began
            self._started = self._started or code != BAD_INPUT or lasted > STARTED_AFTER
            if not self._started or code == STORE_TOO_NEW:
                self.refused = True
                self.stop()
                return
            crashes = 1 if lasted > STABLE_AFTER else crashes + 1
            wait = min(BACKOFF.raw(crashes - 1), LONGEST_WAIT)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            typer.echo(f"redrive: worker process {pid} {how}; restarting in {wait:g} s", err=True)
            waiting = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait([waiting], timeout=wait)
            waiting.cancel()

    async def _run_one(self, index: int) -> tuple[int, int]:
        # In its own session a process gets no Ctrl-C from the terminal, only the signals passed on.
        process = await asyncio.create_subprocess_exec(
            *self._command_of(index), stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        self._running.add(process)
        if self._stopping.is_set():
            _signal(process)
        try:
            return await process.wait(), process.pid
        finally:
            self._running.remove(process)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGTERM) -> None:
    if process.returncode is None:
        process.send_signal(number)
