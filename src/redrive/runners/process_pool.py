"""Actions in processes of their own, which are kept for further calls, and killed when one is cut short."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from redrive.errors import AttemptLostError, Permanent, RedriveError
from redrive.flows.action import Action
from redrive.flows.error_classes import main_name
from redrive.flows.portable_errors import StoredError, rebuild_error
from redrive.flows.stored_policy import write_stored_policy
from redrive.runners.attempt import Attempt

LENGTH_BYTES: Final = 4
"""Each message is preceded by its length, as a big-endian number of so many bytes."""
LOADED_MAIN: Final = "__redrive_main__"
"""What a process calls the program of its worker where it has no other name by which to load it."""

# Nothing longer is ever sent: results and arguments are bounded.
_LONGEST_MESSAGE = 64 * 1024 * 1024
# For the last answer of a process that left another one behind, which keeps the pipe open.
_LAST_WORDS = 0.5
# For idle processes to end by themselves, and for killed ones to be gone.
_PATIENCE = 2.0
# What a worker can import its processes can too, whichever way it came by its path.
_START = "import sys; sys.path[:] = sys.argv[1:]; from redrive.runners.process_child import main; main()"


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is asked to do: one attempt."""

    action: str
    module: str
    file: str | None
    """Where the module is, in case that it cannot be found by its name."""
    qualname: str
    arguments: msgspec.Raw
    flow_id: str
    item: int
    step: str
    number: int
    delivery_token: str
    policy: msgspec.Raw
    timeout: float | None
    timeout_at: float | None
    details: msgspec.Raw


class Beat(msgspec.Struct, frozen=True, tag=True):
    """A heartbeat of the attempt under way."""

    details: msgspec.Raw


class Done(msgspec.Struct, frozen=True, tag=True):
    """The last message of an attempt that returned."""

    result: msgspec.Raw


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The last message of an attempt that raised."""

    error: StoredError


_MESSAGES = msgspec.json.Decoder(Beat | Done | Failed)


class ProcessDied(AttemptLostError):
    """The process of an action ended before the action did: whether it took effect is not known."""

    def __init__(self, action: str, returncode: int) -> None:
        super().__init__(
            f"the process of action {action} died with {_ending(returncode)}; whether it took effect is not known"
        )
        self.returncode = returncode
        """Its exit code; -N when signal N ended it."""


class NotImportable(RedriveError, ImportError):
    """An action cannot be found in a process of its own."""

    def __init__(self, action: str, why: str) -> None:
        super().__init__(
            f"action {action} cannot run in a process of its own: {why}; "
            "put it at module level in a module that can be imported, and what starts the app under "
            '`if __name__ == "__main__":`'
        )


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
    return f"signal {-returncode} ({name}{', perhaps for want of memory' if name == 'SIGKILL' else ''})"


class ProcessPool:
    """At most `limit` processes, started when they are needed; each carries out one call at a time."""

    loading = ""
    """In a process of a pool: the module that it loads at this moment."""

    def __init__(self, limit: int) -> None:
        self.refuse_while_loading()
        self._places = asyncio.Semaphore(limit)
        self._children: set[_Child] = set()
        self._idle: list[_Child] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    def refuse_while_loading(cls) -> None:
        """Loading the module of an action may not start the app: its processes would start others, without end."""
        if cls.loading:
            raise RuntimeError(f"loading {cls.loading} for an action in a process of its own starts the app again")

    async def call(self, action: Action[Any, Any], attempt: Attempt, arguments: str) -> str:
        """Carry out the attempt: its encoded result. When this is cancelled, the process is killed at once."""
        work = msgspec.json.encode(_work(action, attempt, arguments))
        async with self._places:
            child = await self._child()
            try:
                answer = await child.ask(action.name, work, attempt.beat)
            except BaseException:
                child.kill()
                # The next attempt must not overlap with this one.
                await asyncio.wait([child.gone], timeout=_PATIENCE)
                raise
            self._idle.append(child)
        if isinstance(answer, Done):
            return bytes(answer.result).decode()
        error = rebuild_error(answer.error)
        if isinstance(error, Exception):
            raise error
        # It was to end that process or task, and neither this one nor the event loop.
        raise Permanent(f"the action raised {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """End all processes: those at work at once, the others in their own way."""
        self._closed = True
        if self._starting:
            await asyncio.wait(self._starting)
        for child in self._children:
            if child in self._idle:
                child.leave()
            else:
                child.kill()
        await self._gone()
        for child in self._children:
            child.kill()
        await self._gone()

    async def _gone(self) -> None:
        if self._children:
            await asyncio.wait([child.gone for child in self._children], timeout=_PATIENCE)

    async def _child(self) -> "_Child":
        while not self._closed:
            while self._idle:
                child = self._idle.pop()
                if child.is_alive():
                    return child
            start = asyncio.get_running_loop().create_task(self._start())
            self._starting.add(start)
            start.add_done_callback(self._starting.discard)
            try:
                await asyncio.shield(start)
            except asyncio.CancelledError:
                # Interrupted half way, it would leave a process that nobody knows.
                await asyncio.wait([start])
                raise
        raise RuntimeError("the processes of the pool were ended")

    async def _start(self) -> None:
        path = [entry for entry in sys.path if isinstance(entry, str)]
        _, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Child(self._forget),
            sys.executable,
            "-c",
            _START,
            *path,
            stderr=None,
            # Out of reach of the terminal's Ctrl-C, and killed together with the processes it starts.
            start_new_session=True,
        )
        self._children.add(child)
        self._idle.append(child)

    def _forget(self, child: "_Child") -> None:
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)


def _work(action: Action[Any, Any], attempt: Attempt, arguments: str) -> Work:
    function = action.function
    module: str = getattr(function, "__module__", None) or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__":
        module = main_name()
        # Where the process has to give the program this name, its exceptions come back under it.
        sys.modules.setdefault(LOADED_MAIN, sys.modules["__main__"])
        if module == "__main__":
            module = LOADED_MAIN
            if file is None:
                raise NotImportable(action.name, "the program has no file")
    return Work(
        action=action.name,
        module=module,
        file=file,
        qualname=getattr(function, "__qualname__", ""),
        arguments=msgspec.Raw(arguments.encode()),
        flow_id=attempt.flow_id,
        item=attempt.item,
        step=attempt.step,
        number=attempt.number,
        delivery_token=attempt.delivery_token,
        policy=write_stored_policy(attempt.policy),
        timeout=attempt.timeout,
        timeout_at=attempt.timeout_at,
        details=attempt.details or msgspec.Raw(b"null"),
    )


class _Child(asyncio.SubprocessProtocol):
    """One process. `forget` is told when it is gone."""

    _transport: asyncio.SubprocessTransport

    def __init__(self, forget: "Callable[[_Child], None]") -> None:
        self._forget = forget
        self._received = bytearray()
        self._action = ""
        self._beat: Callable[[str], None]
        self._answer: asyncio.Future[Done | Failed] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, action: str, work: bytes, beat: Callable[[str], None]) -> Done | Failed:
        self._action = action
        self._beat = beat
        self._answer = asyncio.get_running_loop().create_future()
        self._stdin().write(len(work).to_bytes(LENGTH_BYTES) + work)
        return await self._answer

    def is_alive(self) -> bool:
        return self._transport.get_returncode() is None

    def leave(self) -> None:
        """Have it end when nothing is under way."""
        self._stdin().close()

    def kill(self) -> None:
        """End it now, with the processes that it started."""
        if not self.is_alive():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)

    def _stdin(self) -> asyncio.WriteTransport:
        return cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._received += data
        while len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
            if len(self._received) < end <= _LONGEST_MESSAGE:
                return
            try:
                message = _MESSAGES.decode(bytes(self._received[LENGTH_BYTES:end]))
            except msgspec.DecodeError:
                # The code of the action wrote into what is not its own.
                self.kill()
                return
            del self._received[:end]
            if self._answer is None or self._answer.done():
                continue
            if isinstance(message, Beat):
                self._beat(bytes(message.details).decode())
            else:
                self._answer.set_result(message)

    def process_exited(self) -> None:
        # What it wrote last may still be in the pipe.
        asyncio.get_running_loop().call_later(_LAST_WORDS, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.gone.done():
            self._transport.close()
            self.gone.set_result(None)
            self._forget(self)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(ProcessDied(self._action, self._transport.get_returncode() or 0))
