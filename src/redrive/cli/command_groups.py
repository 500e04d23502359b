"""Groups of commands: `redrive flows` alone, or with options, is `redrive flows list`."""

from typing import Any

from typer.core import TyperGroup


class ListsByDefault(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)
