"""Sessions of the dashboard: a browser sends an API key once, and from then on a cookie that scripts cannot read."""

import hashlib
from collections import OrderedDict
from typing import Any

import msgspec

from redrive.determinism.clock import current_clock
from redrive.determinism.ids import random_token
from redrive.server.access.api_keys import ApiKeys, Caller

COOKIE = "redrive_session"
MOST_SESSIONS = 2000
MOST_PER_KEY = 100


def cookie_name(scope: Any) -> str:
    """Return the name of the cookie: with the port, as browsers send a cookie to every port of its host."""
    server = scope.get("server")
    port = None if server is None else server[1]
    return COOKIE if port is None else f"{COOKIE}_{port}"


class _Session(msgspec.Struct, frozen=True):
    caller: Caller
    expires: float


class Sessions:
    """The sessions of this process, in memory; one more than allowed ends the oldest one.

    A session ends with its key: when that is revoked or expires.
    """

    def __init__(self, keys: ApiKeys, lifetime: float) -> None:
        self._keys = keys
        self._lifetime = lifetime
        self._clock = current_clock()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        """By the digest of the cookie's value, the oldest first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def has(self, value: str) -> bool:
        """Whether there is a session with this cookie, ended or not."""
        return _digest(value) in self._sessions

    def begin(self, caller: Caller) -> str:
        """Begin a session for the holder of a key, and return the value of its cookie."""
        self._make_room(caller.id)
        value = random_token() + random_token()
        digest = _digest(value)
        held = msgspec.structs.replace(caller, session=digest)
        self._sessions[digest] = _Session(held, self._clock.monotonic() + self._lifetime)
        return value

    async def caller(self, value: str) -> Caller | None:
        """Return the caller whose session this is; None if it has ended."""
        session = self._sessions.get(_digest(value))
        if session is None or not await self.still_valid(session.caller):
            return None
        await self._keys.note_use(session.caller.id)
        return session.caller

    async def still_valid(self, caller: Caller) -> bool:
        """Whether the caller's key is still valid and, if a session is used instead of the key, the session as well."""
        if caller.session:
            session = self._sessions.get(caller.session)
            if session is None or self._clock.monotonic() >= session.expires:
                self._sessions.pop(caller.session, None)
                return False
        if await self._keys.still_valid(caller):
            return True
        self._sessions.pop(caller.session, None)
        return False

    def end(self, caller: Caller) -> None:
        self._sessions.pop(caller.session, None)

    def _make_room(self, key: str) -> None:
        now = self._clock.monotonic()
        while self._sessions and next(iter(self._sessions.values())).expires <= now:
            self._sessions.popitem(last=False)
        own = [digest for digest, session in self._sessions.items() if session.caller.id == key]
        if len(own) >= MOST_PER_KEY:
            del self._sessions[own[0]]
        elif len(self._sessions) >= MOST_SESSIONS:
            self._sessions.popitem(last=False)


def _digest(value: str) -> str:
    # As keys are kept: what leaks from memory or a log line opens nothing.
    return hashlib.sha256(value.encode()).hexdigest()
