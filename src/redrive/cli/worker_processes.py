"""Keeps worker processes alive: one that crashes is started again, a signal is passed on to all of them."""

import asyncio
import os
import signal

import typer

from redrive.cli.event_loop import FOR_THE_HAND_OVER, SIGNALS
from redrive.cli.exit_codes import BAD_INPUT, TOO_OLD
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.policies.backoff import Backoff

# Who crashes soon after its start is started again later each time.
BACKOFF = Backoff("exponential", 0.5)
LONGEST_WAIT = 30.0
LONG_ENOUGH = 60.0
BEGAN_WELL = 10.0


async def supervise(command: list[str], count: int, grace: float) -> int:
    """Keep `count` processes of the command alive until a signal says to stop; they have the grace period to end."""
    supervisor = _Supervisor(command, grace + FOR_THE_HAND_OVER)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, supervisor.stop, number)
    typer.echo(f"supervisor {os.getpid()}: {count} worker processes")
    await asyncio.gather(*(supervisor.keep_one() for _ in range(count)))
    return BAD_INPUT if supervisor.refused else 0


class _Supervisor:
    def __init__(self, command: list[str], patience: float) -> None:
        self._command = command
        self._patience = patience
        self._running: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._began_well = False
        self.refused = False
        """They were told what they cannot do, from the start or for good: it would be the same each time."""

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """The first signal asks for a graceful stop, the next one for one at once: each worker sees to that.

        But not with Ctrl-C, which a worker cannot tell from a signal that was meant for all at once.
        """
        if not self._stopping.is_set():
            asyncio.get_running_loop().call_later(self._patience, self._kill_the_rest)
        elif number == signal.SIGINT:
            number = signal.SIGKILL
        self._stopping.set()
        for process in self._running:
            _tell(process, number)

    def _kill_the_rest(self) -> None:
        for process in self._running:
            if process.returncode is None:
                typer.echo(
                    f"redrive: worker process {process.pid} did not end within {self._patience:g} s and is killed; its "
                    "flows go on elsewhere when its lease has run out",
                    err=True,
                )
                process.kill()

    async def keep_one(self) -> None:
        crashes = 0
        while not self._stopping.is_set():
            began = SYSTEM_CLOCK.monotonic()
            code, pid = await self._one()
            if self._stopping.is_set():
                return
            lasted = SYSTEM_CLOCK.monotonic() - began
            self._began_well = self._began_well or code != BAD_INPUT or lasted > BEGAN_WELL
            if not self._began_well or code == TOO_OLD:
                self.refused = True
                self.stop()
                return
            crashes = 1 if lasted > LONG_ENOUGH else crashes + 1
            wait = min(BACKOFF.raw(crashes - 1), LONGEST_WAIT)
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            typer.echo(f"redrive: worker process {pid} {how}; another one begins in {wait:g} s", err=True)
            waiting = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait([waiting], timeout=wait)
            waiting.cancel()

    async def _one(self) -> tuple[int, int]:
        # In a session of its own it gets no Ctrl-C from the terminal, only what is passed on.
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, start_new_session=True
        )
        self._running.add(process)
        if self._stopping.is_set():
            _tell(process)
        try:
            return await process.wait(), process.pid
        finally:
            self._running.remove(process)


def _tell(process: asyncio.subprocess.Process, number: signal.Signals = signal.SIGTERM) -> None:
    if process.returncode is None:
        process.send_signal(number)
