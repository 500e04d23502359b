"""The idempotency keys of the requests inside one guarded call: a request keeps its key on every attempt.

Each attempt builds its requests anew, so no request object can carry a key to the next attempt. Requests are matched by
method, address and content, because concurrent requests may change their order and an attempt may skip what an earlier
one finished. Requests with new content, such as a timestamp, are matched in order.

The same object tracks unsafe work inside the call: work that is not idempotent and has no outcome yet. If it is
interrupted, or abandoned in a thread, it may still take effect.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Any

from redrive.calls.scope import CURRENT, KEYS, UNTIL, Scope, base_of_keys, keys_in, owner_of
from redrive.determinism.ids import new_id


class _IssuedKey:
    """A key, or the keys of an inner call, and the latest attempt that used it."""

    __slots__ = ("attempt", "content", "key")

    def __init__(self, key: "str | IdempotencyKeys", content: Hashable, attempt: int) -> None:
        self.key = key
        self.content = content
        self.attempt = attempt


class IdempotencyKeys:
    """Issues the keys of one guarded call, and tracks the unsafe work inside it. Safe for use from many threads."""

    def __init__(self, base: str | None = None) -> None:
        """With `base`, the same requests in the same order get the same keys, also in another process."""
        self._base = base
        self._made = 0
        self._lock = threading.Lock()
        self._attempt = 1
        self._unsafe: set[Hashable] = set()
        self._issued: dict[tuple[str, ...], list[_IssuedKey]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Vetoed errors refer to these keys. In another process the reference has no meaning.
        return type(self), (self._base,)

    def next_attempt(self) -> None:
        """Begin the next attempt: its requests get the keys they had before."""
        with self._lock:
            self._attempt += 1
            self._unsafe.clear()

    def unsafe_work_began(self, call: Hashable) -> None:
        """Record that an inner call that is not idempotent has begun an attempt."""
        with self._lock:
            self._unsafe.add(call)

    def unsafe_work_ended(self, call: Hashable) -> None:
        """Record that the attempt has an outcome. An interrupted attempt never gets here."""
        with self._lock:
            self._unsafe.discard(call)

    def unsafe_work_left(self) -> bool:
        """Whether such an attempt was interrupted or is still running: it may take effect."""
        return bool(self._unsafe)

    def key_for(self, method: str, address: str, content: Hashable = None) -> str:
        """Return the key of a request; `content`, such as query and body, distinguishes requests to one address."""
        key = self._issue((method, address), content, self._new_key)
        assert isinstance(key, str)  # noqa: S101 - narrows for mypy
        return key

    def of_inner_call(self, operation: str) -> "IdempotencyKeys":
        """Return the keys of an inner call that owns its retries; that call gets the same keys on the next attempt."""
        keys = self._issue((operation,), None, self._new_keys)
        assert isinstance(keys, IdempotencyKeys)  # noqa: S101 - narrows for mypy
        return keys

    def _new_key(self) -> str:
        if self._base is None:
            return new_id()
        self._made += 1
        return f"{self._base}.{self._made}"

    def _new_keys(self) -> "IdempotencyKeys":
        return IdempotencyKeys(None if self._base is None else self._new_key())

    def _issue(
        self, address: tuple[str, ...], content: Hashable, make: "Callable[[], str | IdempotencyKeys]"
    ) -> "str | IdempotencyKeys":
        # A hash is enough: contents are only compared, and only in this process.
        content = hash(content)
        with self._lock:
            known = self._issued.setdefault(address, [])
            free = [one for one in known if one.attempt < self._attempt]
            found = next((one for one in free if one.content == content), None)
            position = len(known) - len(free)
            if found is None and free and known[position] is free[0]:
                # All earlier requests kept their order. Otherwise the free key may belong to another request, and a
                # server that has seen it would skip this one.
                found = free[0]
            if found is None:
                found = _IssuedKey(make(), content, self._attempt)
                known.append(found)
            found.attempt = self._attempt
            found.content = content
            return found.key


_making = threading.Lock()


def current_keys() -> IdempotencyKeys | None:
    """Return the keys of the guarded call that this code runs in; None outside one."""
    return keys_of(CURRENT.get())


def keys_of_inner_call(outer: Scope, operation: str) -> IdempotencyKeys | None:
    """Return the keys for a new scope inside `outer`; None if no call is running there."""
    keys = keys_of(outer)
    return None if keys is None else keys.of_inner_call(operation)


def keys_of(scope: Scope) -> IdempotencyKeys | None:
    """Return the keys of the scope's call, creating them on first use; None if the call has ended."""
    if owner_of(scope) is None:
        return None
    with _making:
        keys: IdempotencyKeys | None = keys_in(scope)
        if keys is None:
            keys = IdempotencyKeys(base_of_keys(scope))
            until = scope[UNTIL] if len(scope) > UNTIL else None
            scope[UNTIL : KEYS + 1] = (until, keys)
    return keys
