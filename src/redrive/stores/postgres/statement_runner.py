"""What the groups of verbs ask of the store that they are a part of."""

from typing import Any, Protocol


class StatementRunner(Protocol):
    """Runs single statements on the pool, and returns their rows."""

    async def _read(self, statement: str, *parameters: Any) -> list[Any]: ...

    async def _write(self, statement: str, *parameters: Any) -> list[Any]: ...
