"""The idempotency keys of the requests made inside one guarded call: a request keeps its key on every attempt.

The code of an attempt makes its requests anew, so there is no request object that could carry a key from one attempt
to the next. A request is known by where it goes and by its content, because concurrent requests may change their order
and an attempt may skip what an earlier one finished; one whose content is new (a time in it, say) is known by its turn.

The same record knows of work inside the call that must not be done twice and has no outcome yet: what is interrupted,
or left behind in a thread, may still take effect.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Any

from redrive.calls.scope import CURRENT, KEYS, UNTIL, Scope, base_of_keys, keys_in, owner_of
from redrive.determinism.ids import new_id


class _Handed:
    """A key that was handed out (or the keys of an inner call), and when it was last."""

    __slots__ = ("attempt", "content", "what")

    def __init__(self, what: "str | IdempotencyKeys", content: Hashable, attempt: int) -> None:
        self.what = what
        self.content = content
        self.attempt = attempt


class IdempotencyKeys:
    """Hands out the keys of one guarded call, and knows of the unsafe work under way inside it.

    Safe across the threads and tasks of its attempts.
    """

    def __init__(self, base: str | None = None) -> None:
        """`base` makes the keys the same whenever the same requests are made in the same order."""
        self._base = base
        self._made = 0
        self._lock = threading.Lock()
        self._attempt = 1
        self._unsafe: set[Hashable] = set()
        self._handed: dict[tuple[str, ...], list[_Handed]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # It goes along on errors that it has marked; in another process it means nothing.
        return type(self), (self._base,)

    def next_attempt(self) -> None:
        """From now on the requests of the next attempt are made: each finds the key it had."""
        with self._lock:
            self._attempt += 1
            self._unsafe.clear()

    def unsafe_work_began(self, call: Hashable) -> None:
        """A call inside that is not idempotent makes an attempt."""
        with self._lock:
            self._unsafe.add(call)

    def unsafe_work_ended(self, call: Hashable) -> None:
        """It has an outcome, whatever it is; one that was interrupted never says this."""
        with self._lock:
            self._unsafe.discard(call)

    def unsafe_work_left(self) -> bool:
        """Whether such an attempt was interrupted or still goes on: it may take effect."""
        return bool(self._unsafe)

    def key_for(self, method: str, address: str, content: Hashable = None) -> str:
        """The key of a request; `content` (its query and body, say) tells requests to one address apart."""
        key = self._hand_out((method, address), content, self._new_key)
        assert isinstance(key, str)  # noqa: S101 - narrows for mypy
        return key

    def of_inner_call(self, operation: str) -> "IdempotencyKeys":
        """The keys of a call that is made inside this one and retries by itself; they outlive it in the same way."""
        keys = self._hand_out((operation,), None, self._new_keys)
        assert isinstance(keys, IdempotencyKeys)  # noqa: S101 - narrows for mypy
        return keys

    def _new_key(self) -> str:
        if self._base is None:
            return new_id()
        self._made += 1
        return f"{self._base}.{self._made}"

    def _new_keys(self) -> "IdempotencyKeys":
        return IdempotencyKeys(None if self._base is None else self._new_key())

    def _hand_out(
        self, address: tuple[str, ...], content: Hashable, make: "Callable[[], str | IdempotencyKeys]"
    ) -> "str | IdempotencyKeys":
        # Only whether contents are equal matters, and only in this process.
        content = hash(content)
        with self._lock:
            known = self._handed.setdefault(address, [])
            free = [one for one in known if one.attempt < self._attempt]
            found = next((one for one in free if one.content == content), None)
            turn = len(known) - len(free)
            if found is None and free and known[turn] is free[0]:
                # Those before it kept their turns. Where they did not, the free key is another request's, under which
                # a server would take this one for done.
                found = free[0]
            if found is None:
                found = _Handed(make(), content, self._attempt)
                known.append(found)
            found.attempt = self._attempt
            found.content = content
            return found.what


_making = threading.Lock()


def current_keys() -> IdempotencyKeys | None:
    """The keys of the guarded call that this code runs in; None outside of one."""
    return keys_of(CURRENT.get())


def keys_of_inner_call(outer: Scope, operation: str) -> IdempotencyKeys | None:
    """The keys for a new scope inside `outer`; None when no call is running there."""
    keys = keys_of(outer)
    return None if keys is None else keys.of_inner_call(operation)


def keys_of(scope: Scope) -> IdempotencyKeys | None:
    """The keys of the call whose scope this is, made when they are first asked for; None when it no longer runs."""
    if owner_of(scope) is None:
        return None
    with _making:
        keys: IdempotencyKeys | None = keys_in(scope)
        if keys is None:
            keys = IdempotencyKeys(base_of_keys(scope))
            until = scope[UNTIL] if len(scope) > UNTIL else None
            scope[UNTIL : KEYS + 1] = (until, keys)
    return keys
