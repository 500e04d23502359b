"""A failover to an asynchronous standby: what the primary committed last is gone, though it was acknowledged."""

import asyncio
import contextlib

from tests.chaos.network import Network
from tests.postgres_server import PostgresServer

LAG = 1.0
"""Seconds of commits that the standby never gets."""


class Failover:
    def __init__(self, primary: PostgresServer, network: Network, stack: contextlib.ExitStack) -> None:
        """network: the way of all clients to the database; it leads to the standby afterwards."""
        self._primary = primary
        self._network = network
        self._replication = stack.enter_context(Network(primary.port, 1))
        self._standby = PostgresServer(standby_of=primary, port=self._replication.port(0))
        stack.callback(self._standby.remove)

    async def happen_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._replication.do(0, "drop")
        await asyncio.sleep(LAG)
        await asyncio.to_thread(self._primary.kill)
        await asyncio.to_thread(self._standby.promote)
        self._network.retarget(self._standby.port)
