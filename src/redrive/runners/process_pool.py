"""A pool of processes for actions. Processes are reused, and killed when an attempt is cut."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, cast

import msgspec

from redrive.errors import AttemptLostError, Permanent
from redrive.flows.action import Action
from redrive.flows.errors.error_classes import main_name
from redrive.flows.errors.stored_error import rebuild_error
from redrive.flows.stored_policy import write_stored_policy
from redrive.runners.attempt import Attempt, NotCalled
from redrive.runners.process_protocol import (
    LENGTH_BYTES,
    LOADED_MAIN,
    MAX_MESSAGE,
    AttemptRequest,
    Heartbeat,
    NotImportable,
    Raised,
    Returned,
    framed,
)
from redrive.runners.stderr_lines import level_on_stderr

# How long to read on after a process exited: a program that it started may keep the pipe open.
_LAST_MESSAGE_SECONDS = 0.5
# For idle processes to exit by themselves, and for killed ones to be gone.
_EXIT_SECONDS = 2.0
# The process gets the worker's import path, however the worker came by it.
_START = "import sys; sys.path[:] = sys.argv[1:]; from redrive.runners.process_child import main; main()"

_MESSAGES = msgspec.json.Decoder(Heartbeat | Returned | Raised)


class ProcessDied(AttemptLostError):
    """The process exited before the action returned: whether the action took effect is unknown."""

    def __init__(self, action: str, returncode: int) -> None:
        super().__init__(
            f"the process of action {action} died with {_ending(returncode)}; whether it took effect is not known"
        )
        self.returncode = returncode
        """The exit code; -N if signal N ended the process."""


def _ending(returncode: int) -> str:
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
    return f"signal {-returncode} ({name}{', perhaps out of memory' if name == 'SIGKILL' else ''})"


class ProcessPool:
    """Runs at most `limit` processes, started when they are needed; each makes one attempt at a time."""

    loading = ""
    """In a process of a pool: the module that is being imported."""

    def __init__(self, limit: int, may_call: Callable[[], bool] = lambda: True) -> None:
        """may_call: asked right before a request is sent to a process; NotCalled when it is False."""
        self._may_call = may_call
        self.refuse_while_loading()
        self._slots = asyncio.Semaphore(limit)
        self._children: set[_Child] = set()
        self._idle: list[_Child] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    def refuse_while_loading(cls) -> None:
        """Raise if a module that is imported for an action starts the app: its processes would start more for ever."""
        if cls.loading:
            raise RuntimeError(f"importing {cls.loading} for an action in a process of its own starts the app again")

    async def call(self, action: Action[Any, Any], attempt: Attempt, arguments: str) -> str:
        """Make the attempt and return its result as JSON. When this is cancelled, the process is killed."""
        request = framed(_request(action, attempt, arguments))
        async with self._slots:
            child = await self._idle_child()
            if not self._may_call():
                self._idle.append(child)
                raise NotCalled
            try:
                answer = await child.ask(action.name, request, attempt.beat)
            except BaseException:
                child.kill()
                # The next attempt must not overlap with this one.
                await asyncio.wait([child.gone], timeout=_EXIT_SECONDS)
                raise
            self._idle.append(child)
        if isinstance(answer, Returned):
            return bytes(answer.result).decode()
        error = rebuild_error(answer.error)
        if isinstance(error, Exception):
            raise error
        # A SystemExit, say, was meant for that process and must not end this one.
        raise Permanent(f"the action raised {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """End all processes: kill those with an attempt, and let the others exit."""
        self._closed = True
        if self._starting:
            await asyncio.wait(self._starting)
        for child in self._children:
            if child in self._idle:
                child.let_exit()
            else:
                child.kill()
        await self._wait_until_gone()
        for child in self._children:
            child.kill()
        await self._wait_until_gone()

    async def _wait_until_gone(self) -> None:
        if self._children:
            await asyncio.wait([child.gone for child in self._children], timeout=_EXIT_SECONDS)

    async def _idle_child(self) -> "_Child":
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
                # Interrupted half-way, it would leave a process that the pool does not know.
                await asyncio.wait([start])
                raise
        raise RuntimeError("the process pool is closed")

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


def _request(action: Action[Any, Any], attempt: Attempt, arguments: str) -> AttemptRequest:
    function = action.function
    module: str = getattr(function, "__module__", None) or ""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__":
        module = main_name()
        # If the process has to import the program by this name, its exceptions come back under it.
        sys.modules.setdefault(LOADED_MAIN, sys.modules["__main__"])
        if module == "__main__":
            module = LOADED_MAIN
            if file is None:
                raise NotImportable(action.name, "the program has no file")
    return AttemptRequest(
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
        traceparent=attempt.traceparent,
        log_level=level_on_stderr(),
    )


class _Child(asyncio.SubprocessProtocol):
    """One process. `forget` is called when it is gone."""

    _transport: asyncio.SubprocessTransport

    def __init__(self, forget: "Callable[[_Child], None]") -> None:
        self._forget = forget
        self._received = bytearray()
        self._action = ""
        self._beat: Callable[[str], None]
        self._answer: asyncio.Future[Returned | Raised] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ask(self, action: str, request: bytes, beat: Callable[[str], None]) -> Returned | Raised:
        """Send the request and wait for the answer. `beat` is called with the details of each heartbeat."""
        self._action = action
        self._beat = beat
        self._answer = asyncio.get_running_loop().create_future()
        self._stdin().write(request)
        return await self._answer

    def is_alive(self) -> bool:
        return self._transport.get_returncode() is None

    def let_exit(self) -> None:
        """Close the process's stdin: it exits when it is idle."""
        self._stdin().close()

    def kill(self) -> None:
        """Kill the process, and the processes that it started."""
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
            if len(self._received) < end <= MAX_MESSAGE:
                return
            try:
                message = _MESSAGES.decode(bytes(self._received[LENGTH_BYTES:end]))
            except msgspec.DecodeError:
                # The action's code wrote into the pipe of the messages.
                self.kill()
                return
            del self._received[:end]
            if self._answer is None or self._answer.done():
                continue
            if isinstance(message, Heartbeat):
                self._beat(bytes(message.details).decode())
            else:
                self._answer.set_result(message)

    def process_exited(self) -> None:
        # The last message may still be in the pipe.
        asyncio.get_running_loop().call_later(_LAST_MESSAGE_SECONDS, self._end)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.gone.done():
            self._transport.close()
            self.gone.set_result(None)
            self._forget(self)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(ProcessDied(self._action, self._transport.get_returncode() or 0))
