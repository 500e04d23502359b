"""Resolve host names to addresses that may be called."""

import socket

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from redrive.runners.http.addresses import AddressRules
from redrive.runners.http.errors import AddressRefused


class CheckedResolver(AbstractResolver):
    """Checks the addresses that aiohttp then connects to, so that a name cannot change between check and use."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._lookup = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._lookup.resolve(host, port, family)
        if refused := self._rules.first_refused(host, (one["host"] for one in found)):
            raise AddressRefused(host, refused)
        return found

    async def close(self) -> None:
        await self._lookup.close()
