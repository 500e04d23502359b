"""Limit the open connections: in total, for each peer, and with a reserve for health checks."""

import ipaddress
from collections import Counter
from typing import Literal, Protocol

Place = Literal["regular", "reserved"]
"""reserved: health checks are answered, other requests are turned away."""


class Connection(Protocol):
    """A connection as `Connections` uses it."""

    peer: str

    def drop(self) -> None:
        """Close the connection at once."""

    def check(self, now: float) -> None:
        """Close the connection if the client is too slow."""


class Connections:
    """The open connections of a server.

    A connection is waiting until the headers of a request are complete. When there is no room for a new connection, the
    one that has been waiting longest is dropped: half-sent requests do not lock others out, not even from one address.
    """

    def __init__(self, most: int, most_per_peer: int, reserve: int) -> None:
        self._most = most
        self._most_per_peer = most_per_peer
        self._reserve = reserve
        self._places: dict[Connection, Place] = {}
        self._regular = 0
        self._per_peer: Counter[str] = Counter()
        self._waiting: dict[Place, dict[Connection, None]] = {"regular": {}, "reserved": {}}
        """In the order in which they began to wait."""

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, connection: Connection) -> Place | None:
        """Give a new connection a place; None if there is no room."""
        place = self._find_place(connection.peer)
        if place is not None:
            self._places[connection] = place
            self._count(connection, place, 1)
            self._waiting[place][connection] = None
        return place

    def release(self, connection: Connection) -> None:
        """Give up the place of a connection that has ended."""
        place = self._places.pop(connection, None)
        if place is not None:
            self._count(connection, place, -1)
            self._waiting[place].pop(connection, None)

    def request_began(self, connection: Connection) -> None:
        if place := self._places.get(connection):
            self._waiting[place].pop(connection, None)

    def request_ended(self, connection: Connection) -> None:
        if place := self._places.get(connection):
            self._waiting[place][connection] = None

    def check(self, now: float) -> None:
        """Close the connections of clients that are too slow."""
        for connection in list(self._places):
            connection.check(now)

    def _find_place(self, peer: str) -> Place | None:
        if self._per_peer[peer] >= self._most_per_peer:
            has_room = self._make_room("regular", peer)
        else:
            has_room = self._regular < self._most or self._make_room("regular")
        if has_room:
            return "regular"
        reserved = len(self._places) - self._regular
        return "reserved" if reserved < self._reserve or self._make_room("reserved") else None

    def _make_room(self, place: Place, peer: str | None = None) -> bool:
        """Drop the connection that has waited longest; False if none waits."""
        for connection in self._waiting[place]:
            if peer in (None, connection.peer):
                self.release(connection)
                connection.drop()
                return True
        return False

    def _count(self, connection: Connection, place: Place, by: int) -> None:
        if place == "regular":
            self._regular += by
            self._per_peer[connection.peer] += by
            if not self._per_peer[connection.peer]:
                del self._per_peer[connection.peer]


def peer_of(address: object) -> str:
    """Return the peer of an address: the address itself or, in IPv6, its /64 network, which one host may own whole."""
    host = str(address[0]) if isinstance(address, tuple) and address else ""
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return host
