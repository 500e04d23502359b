"""Starts many flows, a few thousand in each transaction."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from redrive.client.flow_inputs import FlowInput, input_of
from redrive.client.flow_settings import FlowSettings, SharedSettings, new_flow
from redrive.client.flow_starter import add_until_known, started_id
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
CallToStart = AnyCall | tuple[AnyCall, FlowSettings]
"""A call, or a call with settings of its own."""
Progress = Callable[[int], None]
"""Called after each transaction with the number of flows that are started by then."""

_OWN_SETTINGS = (*SharedSettings.__annotations__, "key")


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
        if unknown := {name: value for name, value in settings.items() if name not in SharedSettings.__annotations__}:
            raise unknown_setting("app.start_many", unknown, (*SharedSettings.__annotations__, "keys", "progress"))
        started: list[Started] = []
        piece: list[Prepared] = []
        text = 0
        for prepared in self._prepared(calls, keys, settings):
            longer = text + len(prepared.flow.input)
            if piece and (len(piece) == ADDED_AT_ONCE or longer > MOST_TEXT_AT_ONCE):
                started += await self._add(piece)
                if progress is not None:
                    progress(len(started))
                piece, longer = [], len(prepared.flow.input)
            piece.append(prepared)
            text = longer
            if len(piece) % PREPARED_AT_ONCE == 0:
                await asyncio.sleep(0)  # noqa: TID251 - gives the loop a turn
        if piece:
            started += await self._add(piece)
            if progress is not None:
                progress(len(started))
        return started

    def _prepared(
        self, calls: Iterable[CallToStart], keys: Iterable[str] | None, settings: Mapping[str, Any]
    ) -> Iterator[Prepared]:
        pairs = zip(calls, repeat(None), strict=False) if keys is None else _with_keys(calls, keys)
        for index, (one, key) in enumerate(pairs):
            try:
                yield self._prepare(one, key, settings)
            except Exception as error:
                error.add_note(f"this is call {index} of start_many; those of earlier transactions are started")
                raise

    def _prepare(self, one: CallToStart, key: str | None, settings: Mapping[str, Any]) -> Prepared:
        call, own = one if isinstance(one, tuple) else (one, {})
        if unknown := {name: value for name, value in own.items() if name not in _OWN_SETTINGS}:
            raise unknown_setting("a call of app.start_many", unknown, _OWN_SETTINGS)
        if key is not None and "key" in own:
            raise TypeError("this call has a key of its own; leave out either that or keys=")
        given, now = input_of(call), self._now()
        chosen: dict[str, Any] = {"key": key, **settings, **own}
        return Prepared(new_flow(self._new_id(now), now, given.definition, given.text, **chosen), given)

    async def _add(self, piece: list[Prepared]) -> list[Started]:
        answers = await add_until_known(self._store, [one.flow for one in piece])
        return [_started(one, existing) for one, existing in zip(piece, answers, strict=True)]


def _started(one: Prepared, existing: FlowRecord | None) -> Started:
    flow_id = started_id(one.flow, existing)
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
