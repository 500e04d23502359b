"""Starts many flows, a few thousand in each transaction."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from redrive.client.flow_inputs import FlowInput, input_of
from redrive.client.flow_settings import SharedSettings, new_flow
from redrive.client.flow_starter import add_until_known, started_id
from redrive.client.readable_payloads import refuse_unreadable
from redrive.errors import KeyTakenError
from redrive.flows.action import ActionCall
from redrive.flows.flow_call import FlowCall
from redrive.near_names import unknown_setting
from redrive.stores.interface import Store
from redrive.stores.records import FlowRecord, NewFlow

ADDED_AT_ONCE = 2000
"""Flows of one transaction."""
MOST_TEXT_AT_ONCE = 4_000_000
"""Characters of their inputs together, unless one alone has more."""
PREPARED_AT_ONCE = 200
"""Flows that are encoded before other tasks get their turn."""

AnyCall = ActionCall[Any] | FlowCall[Any]
CallToStart = AnyCall | tuple[AnyCall, Mapping[str, Any]]
"""A call, or a call with settings of its own: those of FlowSettings, but for `connection`."""
Progress = Callable[[int], None]
"""Called after each transaction with the number of flows that are started by then."""

_SHARED = tuple(SharedSettings.__annotations__)
_OWN = (*_SHARED, "key")


class Prepared(NamedTuple):
    flow: NewFlow
    given: FlowInput


class Started(NamedTuple):
    id: str
    is_new: bool
    given: FlowInput


class ManyStarts:
    def __init__(self, store: Store, now: Callable[[], float], new_id: Callable[[float], str]) -> None:
        self._store = store
        self._now = now
        self._new_id = new_id

    async def start(
        self,
        calls: Iterable[CallToStart],
        keys: Iterable[str] | None,
        progress: Progress | None,
        settings: Mapping[str, Any],
    ) -> list[Started]:
        check_shared("app.start_many", settings)
        await refuse_unreadable(self._store)
        started: list[Started] = []
        async for piece in self.pieces(calls, keys, settings):
            started += await self.add(piece)
            if progress is not None:
                progress(len(started))
        return started

    async def pieces(
        self,
        calls: Iterable[CallToStart],
        keys: Iterable[str] | None,
        settings: Mapping[str, Any],
        batch: str | None = None,
    ) -> AsyncIterator[list[Prepared]]:
        """Yield the flows to add, checked, so many at a time as one transaction takes.

        batch: the name of the batch that they are added to; each gets a key.
        """
        piece: list[Prepared] = []
        text = 0
        pairs = zip(calls, repeat(None), strict=False) if keys is None else _with_keys(calls, keys)
        for index, (one, key) in enumerate(pairs):
            try:
                prepared = self._prepare(one, key, settings, batch, index)
            except Exception as error:
                error.add_note(f"this is call {index}, counted from 0; the flows of earlier transactions are started")
                raise
            text += len(prepared.flow.input)
            if piece and (len(piece) == ADDED_AT_ONCE or text > MOST_TEXT_AT_ONCE):
                yield piece
                piece, text = [], len(prepared.flow.input)
            piece.append(prepared)
            if len(piece) % PREPARED_AT_ONCE == 0:
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        if piece:
            yield piece

    async def add(self, piece: list[Prepared]) -> list[Started]:
        answers = await add_until_known(self._store, [one.flow for one in piece])
        return [_started(one, existing) for one, existing in zip(piece, answers, strict=True)]

    def _prepare(
        self, one: CallToStart, key: str | None, settings: Mapping[str, Any], batch: str | None, index: int
    ) -> Prepared:
        call, own = one if isinstance(one, tuple) else (one, {})
        if unknown := [name for name in own if name not in _OWN]:
            raise unknown_setting("a call with settings", unknown, _OWN)
        if key is not None and "key" in own:
            raise TypeError("this call has a key of its own; leave out either that or keys=")
        chosen: dict[str, Any] = {"key": key, **settings, **own}
        if batch is not None:
            chosen["key"] = _key_in(batch, chosen["key"], index)
        given, now = input_of(call), self._now()
        return Prepared(new_flow(self._new_id(now), now, given.definition, given.text, batch=batch, **chosen), given)


def check_shared(what: str, settings: Mapping[str, Any]) -> None:
    """TypeError for a setting that many flows cannot share."""
    if unknown := [name for name in settings if name not in _SHARED]:
        raise unknown_setting(what, unknown, (*_SHARED, "keys", "progress"))


def _key_in(batch: str, key: object, index: int) -> object:
    """Return the key of a flow of a batch: the same for the same call, however often the batch is added."""
    if key is None:
        return f"batch:{batch}:{index}"
    if key == "done":
        raise ValueError("key: 'done' is that of the flow which follows the batch; use another one")
    return f"batch:{batch}:{key}" if isinstance(key, str) and key else key


def _started(one: Prepared, existing: FlowRecord | None) -> Started:
    flow_id = started_id(one.flow, existing)
    if existing is not None and existing.batch != one.flow.batch and one.flow.batch is not None:
        raise KeyTakenError(one.flow.key, existing.definition, existing.id)
    return Started(flow_id, existing is None or flow_id == one.flow.id, one.given)


def _with_keys(calls: Iterable[CallToStart], keys: Iterable[str]) -> Iterator[tuple[CallToStart, str]]:
    if isinstance(keys, str):
        raise TypeError(f"keys: {keys!r:.80} is one text; give a list with a key for each call")
    left = iter(keys)
    index = -1
    for index, call in enumerate(calls):
        if (key := next(left, None)) is None:
            raise ValueError(f"keys: there are {index}, and more calls; give a key for each call")
        yield call, key
    if next(left, None) is not None:
        raise ValueError(f"keys: there are more than {index + 1}, the number of calls; give one for each call")
