"""Command groups whose default command is `list`: `redrive flows` is `redrive flows list`."""

from typing import Any

from typer.core import TyperGroup


class ListByDefault(TyperGroup):
    """A group that runs `list`, with any options given, when no command is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)
