"""A process for actions: what a worker's pool starts. Requests come by stdin and messages go by what was stdout.

The code of an action finds an empty stdin, and what it prints goes to stderr.
"""

import asyncio
import functools
import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader
from queue import SimpleQueue
from types import ModuleType
from typing import Any, BinaryIO

import msgspec
from msgspec import structs

from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.errors import UnknownDefinitionError
from redrive.failures.classifier import DEFAULT_CLASSIFIER
from redrive.failures.redaction import redact
from redrive.flows.action import Action
from redrive.flows.portable_errors import StoredError, rebuild_error, store_error
from redrive.flows.registry import action_named
from redrive.flows.stored_policy import DURABLE_DEFAULT, read_stored_policy
from redrive.runners.attempt import Attempt
from redrive.runners.process_pool import (
    LENGTH_BYTES,
    LOADED_MAIN,
    Beat,
    Done,
    Failed,
    NotImportable,
    ProcessPool,
    Work,
)
from redrive.runners.runner import _call_function

# For what runs at the exit of the interpreter.
_TIME_TO_LEAVE = 2.0


def main() -> None:
    """Carry out what is asked for, until stdin ends."""
    del sys.argv[1:]
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a TextIOWrapper here
    for number in (signal.SIGTERM, signal.SIGINT):
        # Whoever stops a whole service signals every process of it; the worker says when this one ends.
        signal.signal(number, _leave_to_worker)
    _Server(requests, answers).serve()


def _leave_to_worker(_number: int, _frame: object) -> None:
    # Not SIG_IGN, which the programs that an action starts would inherit.
    pass


class _Server:
    """The process's side of the line to its worker."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._sending = threading.Lock()
        self._asked: SimpleQueue[Work | None] = SimpleQueue()
        self._busy = False
        self._calls = 0

    def serve(self) -> None:
        threading.Thread(target=self._listen, name="redrive-worker-watch", daemon=True).start()
        while (work := self._asked.get()) is not None:
            with _killed_with_worker(self._requests.fileno()):
                answer = self._carry_out(work)
            with suppress(Exception):  # it is the action's to replace or close
                sys.stdout.flush()
            self._busy = False
            self._send(answer)

    def _listen(self) -> None:
        """Take requests, and see that nothing goes on when the worker is gone."""
        read = msgspec.json.Decoder(Work).decode
        with suppress(OSError):
            while head := self._requests.read(LENGTH_BYTES):
                text = self._requests.read(length := int.from_bytes(head))
                if len(text) < length:
                    break
                work = read(text)
                self._busy = True
                self._asked.put(work)
        if not self._busy:
            self._asked.put(None)
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + _TIME_TO_LEAVE)
        _end_now()

    def _send(self, message: Beat | Done | Failed, call: int | None = None) -> None:
        """`call`: say nothing when that one is over."""
        text = msgspec.json.encode(message)
        with self._sending:
            if call is None or call == self._calls:
                self._answers.write(len(text).to_bytes(LENGTH_BYTES) + text)
                self._answers.flush()

    def _carry_out(self, work: Work) -> Done | Failed:
        call = self._calls
        attempt = Attempt(
            flow_id=work.flow_id,
            item=work.item,
            step=work.step,
            number=work.number,
            delivery_token=work.delivery_token,
            policy=read_stored_policy(work.policy),
            timeout=work.timeout,
            timeout_at=work.timeout_at,
            details=work.details,
            on_beat=lambda _flow_id, _item, _delivery, text: self._send(Beat(msgspec.Raw(text.encode())), call),
        )
        arguments = bytes(work.arguments).decode()
        try:
            action = _find(work.action, work.module, work.file, work.qualname)
            text = copy_context().run(_call_function, action, attempt, arguments, SYSTEM_CLOCK)
        except BaseException as error:  # noqa: BLE001 - whatever ends an attempt is an outcome
            return Failed(_stored(error))
        else:
            return Done(msgspec.Raw(text.encode()))
        finally:
            with self._sending:
                # What an action left running in a thread may not speak for the next one.
                self._calls += 1


@contextmanager
def _killed_with_worker(requests: int) -> Iterator[None]:
    """Where the kernel can: when the worker closes its end, it kills this process and those that it started.

    The thread that listens sees the same, but not while C code (a regular expression, say) keeps the interpreter.
    Meanwhile nothing may come from the worker, since that would have the same effect.
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


def _end_now() -> None:
    if sys.platform != "win32":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _stored(error: BaseException) -> StoredError:
    """The error as data; what an HTTP answer said stays with it, though the answer itself cannot be kept."""
    stored = store_error(error)
    now = SYSTEM_CLOCK.wall()
    failure = DEFAULT_CLASSIFIER.failure_of(error, now)
    kept = DEFAULT_CLASSIFIER.failure_of(rebuild_error(stored), now)
    lost: dict[str, Any] = {}
    if failure.status != kept.status:
        lost["status_code"] = failure.status
    if failure.retry_after != kept.retry_after:
        lost["retry_after"] = failure.retry_after
    return structs.replace(stored, state=stored.state | lost) if lost else stored


@functools.cache
def _find(name: str, home: str, file: str | None, qualname: str) -> Action[Any, Any]:
    """The action: its module knows it by its name or, where another module made it of a function, the function."""
    ProcessPool.loading = home
    try:
        module = _load(home, file)
    except (Exception, SystemExit) as error:
        raise NotImportable(name, f"{home} cannot be loaded there: {redact(str(error))}") from error
    finally:
        ProcessPool.loading = ""
    with suppress(UnknownDefinitionError):
        action = action_named(name)
        function = action.function
        if (function.__module__, getattr(function, "__qualname__", "")) == (module.__name__, qualname):
            return _made_plain(action)
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise NotImportable(name, f"{home} has no {qualname}")
    return _made_plain(found if isinstance(found, Action) else Action(found, name, DURABLE_DEFAULT, "process"))


def _load(name: str, file: str | None) -> ModuleType:
    """The module of that name or, where it cannot be found or is another one, that file."""
    for known_as in (name, LOADED_MAIN):
        try:
            module = importlib.import_module(known_as)
        except ModuleNotFoundError as error:
            if file is None or not f"{known_as}.".startswith(f"{error.name}."):
                raise
            return _load_file(known_as, file)
        if file is None or _is_file(module, file):
            return module
    raise ImportError(f"another module has its name: {module.__file__}")


def _load_file(name: str, file: str) -> ModuleType:
    # A program need not have a name that ends in .py.
    spec = spec_from_file_location(name, file) or spec_from_loader(name, SourceFileLoader(name, file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_file(module: ModuleType, file: str) -> bool:
    found = getattr(module, "__file__", None) or ""
    try:
        return found == file or os.path.samefile(found, file)
    except OSError:
        return False


def _made_plain(action: Action[Any, Any]) -> Action[Any, Any]:
    function = action.function
    if not inspect.iscoroutinefunction(function):
        return action

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return Action(run, action.name, action.policy, action.place)
