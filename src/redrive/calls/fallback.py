"""What answers when a call has given up: a value, a function, the last good value, or a queue that does it later.

A fallback answers for failures that were worth retrying (exhausted, deadline, open circuit, …). A permanent or an
unknown failure is a fault to be seen, not to be covered, and is raised. A queue does not get work that may be done
already and must not be done twice.
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
    """The call that gave up: enough to answer it, or to do it later."""

    operation: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    error: Exception
    """What it would raise, with its report attached (`redrive.report_of`)."""
    now: float
    function: Callable[..., Any] | None = None
    """What was called, in process only."""

    def __repr__(self) -> str:
        # Arguments may hold secrets.
        return f"GivenUpCall({self.operation!r}, {type(self.error).__name__})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A queue may pickle it, but a function below a decorator cannot be: its name stands for the decorated one.
        return _given_up_call, ({**structs.asdict(self), "function": None},)


def _given_up_call(fields: dict[str, Any]) -> GivenUpCall:
    return GivenUpCall(**fields)


class Fallback:
    """Answers a call that gave up. The kinds below are made by `value`, `call`, `last_good` and `queue`."""

    kind = "fallback"
    remembers = False
    """Whether `remember` wants every good result."""
    repeats = False
    """Whether it has the work done again, which does harm where it may be done already and must not be twice."""

    def answer(self, call: GivenUpCall) -> Any:
        """The answer; a fallback that has none raises the call's error."""
        raise call.error

    def remember(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, now: float
    ) -> None:
        return

    def age(self, call: GivenUpCall) -> float | None:
        """Seconds since the answer was fresh, where that has a meaning."""
        return None

    def __repr__(self) -> str:
        # What a fallback holds may be a secret.
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
    """A last good value and how old it is, in seconds."""

    value: Any
    age: float


class LastGood(Fallback):
    """The last good result of the same function for the same arguments, while it is not older than `max_age`."""

    kind = "last good value"
    remembers = True

    def __init__(self, max_age: float | None, with_age: bool, key: Callable[..., Hashable] | None, limit: int) -> None:
        self._max_age = max_age
        self._with_age = with_age
        self._key = key
        self._limit = limit
        self._told = False
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
        except Exception as error:  # noqa: BLE001 - the call has succeeded, whatever its arguments and their key do
            self._without_key(error)

    def answer(self, call: GivenUpCall) -> Any:
        known = self._known(call)
        if known is None:
            raise call.error
        result, since = known
        return Aged(result, call.now - since) if self._with_age else result

    def age(self, call: GivenUpCall) -> float | None:
        known = self._known(call)
        return None if known is None else call.now - known[1]

    def _known(self, call: GivenUpCall) -> tuple[Any, float] | None:
        try:
            known = self._results.get(self._key_of(call.function, call.args, call.kwargs))
        except Exception as error:  # noqa: BLE001 - as above; the call's own error is the one to raise
            self._without_key(error)
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

    def _without_key(self, error: Exception) -> None:
        """Say once that there are calls whose results cannot be kept: their arguments cannot be told apart."""
        if not self._told:
            self._told = True
            log.warning("last_good does not keep a result: the key of its call raised %s", type(error).__name__)


def value(value: Any) -> Fallback:
    """Answer with this value."""
    return _Value(value)


def call(function: Callable[..., Any], *, with_error: bool = False) -> Fallback:
    """Answer with what `function` returns for the same arguments (after the error, when `with_error`)."""
    return _Call(function, with_error)


def last_good(
    max_age: Any = None, *, with_age: bool = False, key: Callable[..., Hashable] | None = None, limit: int = 256
) -> LastGood:
    """Answer with the function's last good result for the same arguments; without one, the error is raised.

    It is at most `max_age` old. `with_age=True` answers with `Aged(value, age)`. `key` makes the cache key from the
    arguments. The `limit` results used last are kept.
    """
    return LastGood(None if max_age is None else read_duration(max_age), with_age, key, limit)


def queue(enqueue: Callable[[GivenUpCall], Any]) -> Fallback:
    """Hand the call over to be done later; answers with what `enqueue` returns, such as a job id."""
    return _Queue(enqueue)


def as_fallback(what: Any) -> Fallback | None:
    """Read what users write: a Fallback, a function, a plain value, or None for no fallback."""
    if what is None or isinstance(what, Fallback):
        return what
    return call(what) if callable(what) else value(what)


def covers(gave_up: GiveUp | None) -> bool:
    """Whether a fallback may answer for a call that ended like this."""
    return gave_up is not None and gave_up.kind not in ("permanent", "unknown")


def _as_declared(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments, by name only where the function takes them in no other way."""
    try:
        bound = _signature_of(function).bind(*args, **kwargs)
    except Exception:  # noqa: BLE001 - not every function says what it takes
        return args, kwargs
    return bound.args, bound.kwargs


_signature_of = functools.lru_cache(maxsize=256)(inspect.signature)
