"""Serves plain async functions as the tools of an MCP server over stdio (`pip install 'redrive[mcp]'`)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent, ToolAnnotations
    from pydantic import ValidationError
except ImportError as error:
    raise ImportError("the MCP server needs the extra 'mcp': pip install 'redrive[mcp]'") from error

from redrive.errors import RedriveError
from redrive.failures.redaction import redact

Tool = Callable[..., Awaitable[str]]
"""Answers with a text. Its docstring tells the model what it does; its annotations are the schema."""

LONGEST_ANSWER = 40_000
"""Characters of an answer, which has to fit into a model's context."""
LONGEST_REFUSAL = 1000
_REFUSALS = (RedriveError, ValueError, LookupError)


async def serve_stdio(
    name: str, version: str, instructions: str, reading: Sequence[Tool], changing: Sequence[Tool] = ()
) -> None:
    """Serve until standard input ends. `changing`: tools that change something, and are marked so."""
    server = _Server(name, version=version, instructions=instructions, log_level="ERROR")
    for tool in reading:
        hints = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        server.add_tool(tool, annotations=hints, structured_output=False)
    for tool in changing:
        hints = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
        server.add_tool(tool, annotations=hints, structured_output=False)
    await server.run_stdio_async()


class _Server(MCPServer[Any]):
    async def call_tool(self, name: str, arguments: dict[str, Any], context: "Context[Any, Any] | None" = None) -> Any:
        """Call the tool; whatever goes wrong is one line that the model can read."""
        try:
            return _bounded(await super().call_tool(name, arguments, context))
        except ToolError as error:
            text = TextContent(type="text", text=_one_line(error))
            return CallToolResult(content=[text], is_error=True)


def _one_line(error: ToolError) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        wrong = (f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in cause.errors())
        text = "; ".join(wrong)
    elif isinstance(cause, _REFUSALS):
        text = str(cause)
    elif cause is None:
        text = str(error)
    else:
        text = f"the server failed ({type(cause).__name__}); its standard error says why"
    return redact(" ".join(text.split()), LONGEST_REFUSAL)


def _bounded(result: Any) -> Any:
    for part in getattr(result, "content", ()):
        if isinstance(part, TextContent) and len(part.text) > LONGEST_ANSWER:
            part.text = f"{part.text[:LONGEST_ANSWER]}\n... cut after {LONGEST_ANSWER} characters"
    return result
