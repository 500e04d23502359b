"""The program of a pool's process: makes the attempts that its worker asks for.

Requests come by stdin, and messages go by the original stdout. The action's code gets an empty stdin, and what it
prints goes to stderr.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, BinaryIO

import msgspec
from msgspec import structs

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.flows.errors.stored_error import StoredError, rebuild_error, store_error
from redrive.flows.stored_policy import read_stored_policy
from redrive.runners.action_import import import_action
from redrive.runners.attempt import Attempt
from redrive.runners.executors import call_function
from redrive.runners.process_protocol import LENGTH_BYTES, AttemptRequest, Heartbeat, Raised, Returned, framed
from redrive.runners.stderr_lines import log_to_stderr

# For what runs at the exit of the interpreter.
_EXIT_SECONDS = 2.0


def main() -> None:
    """Make attempts until stdin ends."""
    del sys.argv[1:]
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a TextIOWrapper here
    for number in (signal.SIGTERM, signal.SIGINT):
        # A service manager signals every process of a service, but the worker decides when this one ends.
        signal.signal(number, _do_nothing)
    _Server(requests, answers).serve()


def _do_nothing(_number: int, _frame: object) -> None:
    """Ignore a signal. Programs that an action starts would inherit SIG_IGN, but not this."""


class _Server:
    """Answers the worker's requests one after the other."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._queue: SimpleQueue[AttemptRequest | None] = SimpleQueue()
        self._busy = False
        self._attempts = 0

    def serve(self) -> None:
        threading.Thread(target=self._receive, name="redrive-worker-watch", daemon=True).start()
        while (request := self._queue.get()) is not None:
            with _killed_with_worker(self._requests.fileno()):
                answer = self._make_attempt(request)
            with suppress(Exception):  # the action may have replaced or closed it
                sys.stdout.flush()
            self._busy = False
            self._send(answer)

    def _receive(self) -> None:
        """Queue requests; when the worker is gone, end this process."""
        decode = msgspec.json.Decoder(AttemptRequest).decode
        with suppress(OSError):
            while head := self._requests.read(LENGTH_BYTES):
                text = self._requests.read(length := int.from_bytes(head))
                if len(text) < length:
                    break
                request = decode(text)
                self._busy = True
                self._queue.put(request)
        if not self._busy:
            self._queue.put(None)
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + _EXIT_SECONDS)
        _kill_process_group()

    def _send(self, message: Heartbeat | Returned | Raised, attempt: int | None = None) -> None:
        """`attempt`: send nothing if that one is over."""
        data = framed(message)
        with self._sending:
            if attempt is None or attempt == self._attempts:
                self._answers.write(data)
                self._answers.flush()

    def _make_attempt(self, request: AttemptRequest) -> Returned | Raised:
        current = self._attempts
        attempt = Attempt(
            flow_id=request.flow_id,
            item=request.item,
            step=request.step,
            number=request.number,
            delivery_token=request.delivery_token,
            policy=read_stored_policy(request.policy),
            timeout=request.timeout,
            timeout_at=request.timeout_at,
            details=request.details,
            traceparent=request.traceparent,
            on_beat=lambda _flow_id, _item, _delivery, text: self._send(Heartbeat(msgspec.Raw(text.encode())), current),
        )
        arguments = bytes(request.arguments).decode()
        try:
            action = import_action(request.action, request.module, request.file, request.qualname)
            if request.log_level is not None:
                # After the import, as in the worker: the module may add handlers of its own.
                log_to_stderr(request.log_level)
            text = copy_context().run(call_function, action, attempt, arguments, SYSTEM_CLOCK)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is its outcome
            return Raised(_stored(error))
        else:
            return Returned(msgspec.Raw(text.encode()))
        finally:
            with self._sending:
                # A thread that the action left running must not send heartbeats for the next attempt.
                self._attempts += 1


@contextmanager
def _killed_with_worker(requests: int) -> Iterator[None]:
    """Have the kernel, on Linux, kill this process and those it started when the worker closes its end of the pipe.

    The receiving thread does the same, but not while C code (a regular expression, say) holds the interpreter.
    Meanwhile the worker must not write, because that sends the same signal.
    """
    if sys.platform != "linux":
        yield
        return
    from fcntl import F_GETFL, F_SETFL, F_SETOWN, F_SETSIG, fcntl

    flags = fcntl(requests, F_GETFL)
    with suppress(OSError):
        fcntl(requests, F_SETOWN, -os.getpgrp())
        fcntl(requests, F_SETSIG, signal.SIGKILL)
        fcntl(requests, F_SETFL, flags | os.O_ASYNC)
    try:
        yield
    finally:
        fcntl(requests, F_SETFL, flags)


def _kill_process_group() -> None:
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _stored(error: BaseException) -> StoredError:
    """Return the error as data, with the HTTP status and Retry-After that its response object would lose."""
    stored = store_error(error)
    now = SYSTEM_CLOCK.wall()
    failure = DEFAULT_CLASSIFIER.failure_of(error, now)
    rebuilt = DEFAULT_CLASSIFIER.failure_of(rebuild_error(stored), now)
    lost: dict[str, Any] = {}
    if failure.status != rebuilt.status:
        lost["status_code"] = failure.status
    if failure.retry_after != rebuilt.retry_after:
        lost["retry_after"] = failure.retry_after
    return structs.replace(stored, state=stored.state | lost) if lost else stored
