"""Ports for servers that are started later, which no other process of the tests takes meanwhile."""

import functools
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

HOST = "127.0.0.1"
SYSTEM_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST, HIGHEST = 20_000, 65_535
STRIPE = 100


def free_ports(count: int = 1) -> int:
    """Return the first of `count` free consecutive ports, which this process is not given again soon."""
    if not 0 < count < STRIPE:
        raise ValueError(f"count: {count!r} is not allowed; use 1 to {STRIPE - 1}")
    stripe = _stripe_of(os.getpid())
    for _ in range(2 * STRIPE):
        first = stripe.take(count)
        if all(map(_is_free, range(first, first + count))):
            return first
    raise RuntimeError(f"no {count} consecutive ports are free from {stripe.first} on")


class _Stripe:
    """Ports of one process: it listens on the first one for as long as it runs, and so others see that it is taken."""

    def __init__(self, lock: socket.socket) -> None:
        self._lock = lock
        locked: int = lock.getsockname()[1]
        self.first = locked + 1
        self._next = self.first

    def take(self, count: int) -> int:
        # In turn: a port that was handed out may be bound only later, or again after a restart.
        if self._next + count > self.first + STRIPE - 1:
            self._next = self.first
        taken, self._next = self._next, self._next + count
        return taken


@functools.cache
def _stripe_of(process: int) -> _Stripe:
    """By process, so that a fork has a stripe of its own."""
    firsts = list(_stripes(*_ephemeral_range()))
    if not firsts:
        raise RuntimeError(f"every port is ephemeral from {LOWEST} on; narrow {SYSTEM_RANGE}")
    begin = process % len(firsts)
    for first in itertools.chain(firsts[begin:], firsts[:begin]):
        # Without SO_REUSEADDR: only one process can have it.
        lock = socket.socket()
        try:
            lock.bind((HOST, first))
            lock.listen()
        except OSError:
            lock.close()
        else:
            return _Stripe(lock)
    raise RuntimeError(f"all of {len(firsts)} ranges of ports are taken")


def _stripes(lowest_ephemeral: int, highest_ephemeral: int) -> Iterator[int]:
    """The first port of each range that has no ephemeral port."""
    for first in range(LOWEST, HIGHEST - STRIPE + 2, STRIPE):
        if first + STRIPE <= lowest_ephemeral or first > highest_ephemeral:
            yield first


def _ephemeral_range() -> tuple[int, int]:
    """The ports that the system gives to connections and to servers that ask for any."""
    try:
        lowest, highest = SYSTEM_RANGE.read_text(encoding="ascii").split()
    except FileNotFoundError:
        return 49_152, HIGHEST
    return int(lowest), int(highest)


def _is_free(port: int) -> bool:
    try:
        # With SO_REUSEADDR, as servers do: connections that were closed there are no hindrance.
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
