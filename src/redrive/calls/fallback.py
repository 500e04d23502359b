"""Fallbacks answer for a call that has given up: with a value, a function, the last good value, or a queue.

A fallback covers failures that were worth retrying (exhausted, deadline, open circuit, …). Permanent and unknown
failures are raised, so that faults stay visible. A queue never receives work that is not idempotent and may have taken
effect.
"""

import functools
import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import msgspec
from msgspec import structs

from redrive.failures.duration import read_duration
from redrive.policies.decision import GiveUp

log = logging.getLogger("redrive")


class GivenUpCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that gave up, with everything needed to answer it or to make it later."""

    operation: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    error: Exception
    """The error it would raise, with its report attached (`redrive.report_of`)."""
    now: float
    function: Callable[..., Any] | None = None
    """The function that was called; None after pickling."""

    def __repr__(self) -> str:
        # Arguments may hold secrets.
        return f"GivenUpCall({self.operation!r}, {type(self.error).__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A queue may pickle the call. A decorated function cannot be pickled: its name refers to the decorated version.
        return _given_up_call, ({**structs.asdict(self), "function": None},)


def _given_up_call(fields: dict[str, Any]) -> GivenUpCall:
    return GivenUpCall(**fields)


class Fallback:
    """Answers a call that gave up. `value`, `call`, `last_good` and `queue` make the kinds below."""

    kind = "fallback"
    remembers = False
    """Whether to call `remember` with every good result."""
    repeats = False
    """Whether the fallback makes the call again: not allowed if that is unsafe and the call may have taken effect."""

    def answer(self, call: GivenUpCall) -> Any:
        """Return the answer, or raise the call's error if there is none."""
        raise call.error

    def remember(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, now: float
    ) -> None:
        return

    def age(self, call: GivenUpCall) -> float | None:
        """Return the age of the answer in seconds, or None if it has no age."""
        return None

    def __repr__(self) -> str:
        # The fallback may hold a secret.
        return f"<fallback: {self.kind}>"


class _Value(Fallback):
    kind = "value"

    def __init__(self, value: Any) -> None:
        self._value = value

    def answer(self, call: GivenUpCall) -> Any:
        return self._value


class _Call(Fallback):
    kind = "callable"

    def __init__(self, function: Callable[..., Any], with_error: bool) -> None:
        self._function = function
        self._with_error = with_error

    def answer(self, call: GivenUpCall) -> Any:
        if self._with_error:
            return self._function(call.error, *call.args, **call.kwargs)
        return self._function(*call.args, **call.kwargs)


class _Queue(Fallback):
    kind = "queue"
    repeats = True

    def __init__(self, enqueue: Callable[[GivenUpCall], Any]) -> None:
        self._enqueue = enqueue

    def answer(self, call: GivenUpCall) -> Any:
        return self._enqueue(call)


class Aged(msgspec.Struct, frozen=True):
    """A last good value and its age in seconds."""

    value: Any
    age: float


class LastGood(Fallback):
    """Answers with the last good result of the same function for the same arguments, up to `max_age` old."""

    kind = "last good value"
    remembers = True

    def __init__(self, max_age: float | None, with_age: bool, key: Callable[..., Hashable] | None, limit: int) -> None:
        self._max_age = max_age
        self._with_age = with_age
        self._key = key
        self._limit = limit
        self._warned = False
        self._lock = threading.Lock()
        self._results: OrderedDict[Hashable, tuple[Any, float]] = OrderedDict()

    def remember(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, now: float
    ) -> None:
        try:
            key = self._key_of(function, args, kwargs)
            with self._lock:
                self._results[key] = (result, now)
                self._results.move_to_end(key)
                if len(self._results) > self._limit:
                    self._results.popitem(last=False)
        except Exception as error:  # noqa: BLE001 - the call has succeeded, even if its key cannot be made
            self._warn_once(error)

    def answer(self, call: GivenUpCall) -> Any:
        known = self._find(call)
        if known is None:
            raise call.error
        result, since = known
        return Aged(result, call.now - since) if self._with_age else result

    def age(self, call: GivenUpCall) -> float | None:
        known = self._find(call)
        return None if known is None else call.now - known[1]

    def _find(self, call: GivenUpCall) -> tuple[Any, float] | None:
        try:
            known = self._results.get(self._key_of(call.function, call.args, call.kwargs))
        except Exception as error:  # noqa: BLE001 - as above; the call's own error is raised
            self._warn_once(error)
            return None
        if known is None or (self._max_age is not None and call.now - known[1] > self._max_age):
            return None
        return known

    def _key_of(self, function: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Hashable:
        if self._key is not None:
            return function, self._key(*args, **kwargs)
        if kwargs:
            args, kwargs = _as_declared(function, args, kwargs)
        return function, args, tuple(sorted(kwargs.items()))

    def _warn_once(self, error: Exception) -> None:
        """Warn that results are not kept, because no key can be made from the arguments of their calls."""
        if not self._warned:
            self._warned = True
            log.warning("last_good cannot keep a result: making the key of its call raised %s", type(error).__name__)


def value(value: Any) -> Fallback:
    """Answer with this value."""
    return _Value(value)


def call(function: Callable[..., Any], *, with_error: bool = False) -> Fallback:
    """Answer with the result of `function`, called with the same arguments; `with_error=True` puts the error first."""
    return _Call(function, with_error)


def last_good(
    max_age: Any = None, *, with_age: bool = False, key: Callable[..., Hashable] | None = None, limit: int = 256
) -> LastGood:
    """Answer with the function's last good result for the same arguments, or raise the error if there is none.

    The result is at most `max_age` old. `with_age=True` answers with `Aged(value, age)`. `key` makes the cache key from
    the arguments. The `limit` most recent results are kept.
    """
    return LastGood(None if max_age is None else read_duration(max_age), with_age, key, limit)


def queue(enqueue: Callable[[GivenUpCall], Any]) -> Fallback:
    """Enqueue the call for later, and answer with what `enqueue` returns, such as a job id."""
    return _Queue(enqueue)


def as_fallback(setting: Any) -> Fallback | None:
    """Read a `fallback` setting: a Fallback, a function, a plain value, or None for no fallback."""
    if setting is None or isinstance(setting, Fallback):
        return setting
    return call(setting) if callable(setting) else value(setting)


def covers(gave_up: GiveUp | None) -> bool:
    """Whether a fallback may answer for a call that gave up for this reason."""
    return gave_up is not None and gave_up.kind not in ("permanent", "unknown")


def _as_declared(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the same arguments, by position wherever the function allows it."""
    try:
        bound = _signature_of(function).bind(*args, **kwargs)
    except Exception:  # noqa: BLE001 - not every function has a signature
        return args, kwargs
    return bound.args, bound.kwargs


_signature_of = functools.lru_cache(maxsize=256)(inspect.signature)
