"""Decides which flows a claim takes: by priorities, the limits and rates of queues and keys, and turns between keys.

A store hands over the first candidates of each line. A line holds flows of one queue and one definition in the order
in which they may go; flows that have a concurrency key are in lines where the keys take turns.
"""

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from redrive.stores.queues import QueueSettings
from redrive.stores.rates import read_rate

MOST_LEVELS = 64
"""How many priorities of a line one claim looks at, the highest first."""
FORGOTTEN_TURNS = 100_000
"""After how many turns without one of its own it is forgotten how far a line had come."""

LineKind = Literal[
    "plain",  # without a concurrency key
    "plain begun",  # of these, the flows that have begun: where a rate holds back the others
    "keyed",
    "keyed begun",
]


class LineName(NamedTuple):
    queue: str
    definition: str
    kind: LineKind
    priority: int
    """Of all its flows; 0 where the line is in order of priority itself."""


class Served(NamedTuple):
    """How far a line has come: it goes on behind `key`, after the lines of its queue that have a lower turn."""

    key: str = ""
    turn: int = 0


class Candidate(NamedTuple):
    flow: Any
    """Its id, or whatever the store knows it by."""
    priority: int
    wake_at: float
    key: str | None = None
    fresh: bool = True
    """Whether the flow has never been claimed: rates are for those."""


class Line(NamedTuple):
    name: LineName
    served: Served
    candidates: Sequence[Candidate]

    @property
    def is_keyed(self) -> bool:
        return self.name.kind in ("keyed", "keyed begun")

    @property
    def is_begun(self) -> bool:
        return self.name.kind in ("plain begun", "keyed begun")


class QueueState(NamedTuple):
    """A queue with settings, as it is at the claim."""

    settings: QueueSettings
    owned: int = 0

    @property
    def is_full(self) -> bool:
        return self.settings.limit is not None and self.owned >= self.settings.limit


Place = tuple[str, str]
"""A queue, and one of its keys; "" for the queue itself."""


class Choice(NamedTuple):
    flows: list[Any]
    levels: dict[Place, float]
    """The rates that were used -> up to which time."""
    served: dict[LineName, Served]
    next_wake: float | None
    """When a rate next lets a flow begin that waits for it."""


def choose(
    lines: Iterable[Line],
    queues: Mapping[str, QueueState],
    held: Mapping[Place, int],
    levels: Mapping[Place, float],
    limit: int,
    now: float,
) -> Choice:
    """Return up to `limit` flows, in the order in which they go.

    held: how many flows of a key are owned. levels: up to which time a rate has been used.
    """
    return _Choosing(lines, queues, held, levels, now).choose(limit)


class _Choosing:
    def __init__(
        self,
        lines: Iterable[Line],
        queues: Mapping[str, QueueState],
        held: Mapping[Place, int],
        levels: Mapping[Place, float],
        now: float,
    ) -> None:
        self._queues, self._held, self._levels, self._now = queues, dict(held), dict(levels), now
        self._owned = {name: state.owned for name, state in queues.items()}
        self._used: dict[Place, float] = {}
        self._wakes: list[float] = []
        self._lines: dict[str, list[_OpenLine]] = {}
        """Queue -> its lines."""
        for line in lines:
            self._lines.setdefault(line.name.queue, []).append(_OpenLine(line))
        self._in_turns = {queue for queue, found in self._lines.items() if any(one.line.is_keyed for one in found)}
        """The queues whose lines take turns."""
        self._turns = {queue: max(one.turn for one in found) for queue, found in self._lines.items()}

    def choose(self, limit: int) -> Choice:
        chosen: list[Any] = []
        fronts = [front for queue in self._lines if (front := self._front_of(queue)) is not None]
        heapq.heapify(fronts)
        while fronts and len(chosen) < limit:
            _, _, queue, index = fronts[0]
            chosen.append(self._take(queue, self._lines[queue][index]))
            # Whatever was taken changes nothing for other queues.
            if (following := self._front_of(queue)) is None:
                heapq.heappop(fronts)
            else:
                heapq.heapreplace(fronts, following)
        served = {
            one.line.name: Served(one.key, one.turn) for found in self._lines.values() for one in found if one.moved
        }
        return Choice(chosen, self._used, served, min(self._wakes, default=None))

    def _front_of(self, queue: str) -> tuple[int, float, str, int] | None:
        """Return the line of the queue whose front goes next, behind what orders the queues: priority and wake-up.

        Of the lines with the highest priority, one with flows that have begun; then the one that waited longest for its
        turn.
        """
        best: tuple[int, bool, float, int] | None = None
        for index, line in enumerate(self._lines[queue]):
            if not self._move_to_eligible(line):
                continue
            turn = line.turn if queue in self._in_turns else line.front.wake_at
            rank = (-self._priority(queue, line.front), not line.line.is_begun, turn, index)
            if best is None or rank < best:
                best = rank
        if best is None:
            return None
        priority, _, _, index = best
        return priority, self._lines[queue][index].front.wake_at, queue, index

    def _priority(self, queue: str, candidate: Candidate) -> int:
        """The priority, raised by one for each step of time that the flow has waited."""
        state = self._queues.get(queue)
        if state is None or state.settings.aging is None:
            return candidate.priority
        return candidate.priority + math.floor(max(0.0, self._now - candidate.wake_at) / state.settings.aging)

    def _move_to_eligible(self, line: "_OpenLine") -> bool:
        """Skip the flows that may not go now; False when none is left."""
        queue = line.line.name.queue
        state = self._queues.get(queue)
        if state is None:
            return line.position < len(line.line.candidates)
        while line.position < len(line.line.candidates):
            if self._may_go(queue, state.settings, line.front):
                return True
            line.position += 1
        return False

    def _may_go(self, queue: str, settings: QueueSettings, candidate: Candidate) -> bool:
        if settings.limit is not None and self._owned[queue] >= settings.limit:
            return False
        key = candidate.key
        if key is not None and settings.per_key is not None and self._held.get((queue, key), 0) >= settings.per_key:
            return False
        if not candidate.fresh:
            return True
        waits = [
            free_at
            for place, rate in _rates(queue, settings, key)
            if (level := self._levels.get(place)) is not None
            and (free_at := read_rate(rate).free_at(level)) > self._now
        ]
        if waits:
            self._wakes.append(max(waits))
        return not waits

    def _take(self, queue: str, line: "_OpenLine") -> Any:
        candidate = line.front
        line.position += 1
        if queue in self._in_turns:
            self._turns[queue] += 1
            line.key, line.turn, line.moved = candidate.key or "", self._turns[queue], True
        if queue in self._queues:
            self._use(queue, candidate)
        return candidate.flow

    def _use(self, queue: str, candidate: Candidate) -> None:
        self._owned[queue] += 1
        if candidate.key is not None:
            place = queue, candidate.key
            self._held[place] = self._held.get(place, 0) + 1
        if candidate.fresh:
            for place, rate in _rates(queue, self._queues[queue].settings, candidate.key):
                level = read_rate(rate).after(self._levels.get(place, self._now), self._now)
                self._levels[place] = self._used[place] = level


class _OpenLine:
    """A line, and how much of it was taken or skipped."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.position = 0
        self.key, self.turn = line.served
        self.moved = False

    @property
    def front(self) -> Candidate:
        return self.line.candidates[self.position]


def _rates(queue: str, settings: QueueSettings, key: str | None) -> list[tuple[Place, str]]:
    """The rates that a beginning uses."""
    found: list[tuple[Place, str]] = []
    if settings.rate is not None:
        found.append(((queue, ""), settings.rate))
    if settings.key_rate is not None and key is not None:
        found.append(((queue, key), settings.key_rate))
    return found
