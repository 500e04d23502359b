"""`redrive mcp`: let an agent explain flows, see what waits, and check policies, over MCP."""

import socket
from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import StoreOption, operator
from redrive.cli.store_access import find_store, refusals_as_bad_input

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager

    from redrive.stores.interface import Store

INSTRUCTIONS = (
    "redrive runs durable flows and retries what fails. Start with list_waiting or list_dead_letters to find flows, "
    "then explain_flow: it says why each attempt failed, what was decided, and what to do next."
)


def mcp_command(
    allow_redrive: Annotated[
        bool, typer.Option("--allow-redrive", help="Also let the agent redrive dead letters; each is audited.")
    ] = False,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show inputs, results and error messages, not only their sizes.")
    ] = False,
    store: StoreOption = "",
) -> None:
    """Serve MCP on standard input and output, for an agent. Needs the extra: pip install 'redrive[mcp]'.

    Tools: explain_flow, list_waiting, list_dead_letters, preview_policy, lint_policy; and redrive_dead_letters with
    --allow-redrive. Nothing else can be changed.

    \b
    redrive mcp --store postgresql://app@db/app
    redrive mcp --allow-redrive
    """
    import asyncio

    from redrive.cli.stderr_logging import warnings_on_stderr

    with refusals_as_bad_input(), warnings_on_stderr():
        opened = find_store(store, creates=False)
        asyncio.run(_serve(opened, allow_redrive, payloads))


async def _serve(store: "Store", allow_redrive: bool, payloads: bool) -> None:
    import redrive
    from redrive.assembly import open as open_app
    from redrive.client import audit_log
    from redrive.client.agent_tools import AgentTools

    try:
        from redrive.integrations.mcp import Tool, serve_stdio
    except ImportError as error:
        raise BadInput(str(error)) from error
    user, origin = operator(""), f"mcp on {socket.gethostname()}"

    async with open_app(store, worker=False) as app:

        def audited(action: str, targets: "Sequence[str]", why: str) -> "AbstractAsyncContextManager[None]":
            return audit_log.audited(app, action, targets, actor=f"user {user}", by="mcp", origin=origin, detail=why)

        tools = AgentTools(app, payloads=payloads, operator=f"{user} (mcp)", audited=audited)
        reading: list[Tool] = [tools.explain_flow, tools.list_waiting, tools.list_dead_letters]
        reading += [tools.preview_policy, tools.lint_policy]
        changing: list[Tool] = [tools.redrive_dead_letters] if allow_redrive else []
        await serve_stdio("redrive", redrive.__version__, INSTRUCTIONS, reading, changing)
