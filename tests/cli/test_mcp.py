"""`redrive mcp`: the real MCP client talks to the real process over stdio."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.types import TextContent
from tests.cli.test_durable_commands import Command, dead, run, started, store

from redrive.integrations import mcp as integration

__all__ = ["run", "store"]  # fixtures

READING = ["explain_flow", "lint_policy", "list_dead_letters", "list_waiting", "preview_policy"]


class Asked:
    def __init__(self, result: Any) -> None:
        (part,) = result.content
        assert isinstance(part, TextContent)
        self.text, self.is_error = part.text, bool(result.is_error)

    @property
    def data(self) -> Any:
        assert not self.is_error, self.text
        return json.loads(self.text)

    def refused(self) -> str:
        assert self.is_error, self.text
        (line,) = self.text.splitlines()
        return line


class Agent:
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def ask(self, tool: str, **arguments: Any) -> Asked:
        return Asked(await self.session.call_tool(tool, arguments))

    async def tools(self) -> dict[str, Any]:
        return {tool.name: tool for tool in (await self.session.list_tools()).tools}


def talk(play: Callable[[Agent], Awaitable[None]], *options: str) -> None:
    """Start `redrive mcp` in a process of its own, and talk to it."""

    async def connect() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "redrive.cli", "mcp", *options], env={**os.environ}
        )
        async with asyncio.timeout(60), stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            await play(Agent(session))

    asyncio.run(connect())


def test_an_agent_explains_flows_and_lists_what_waits(run: Command) -> None:
    waiting = started(run, "--delay", "2h", "--key", "order-17")
    failed = started(run, failures=9)

    async def play(agent: Agent) -> None:
        tools = await agent.tools()
        assert sorted(tools) == READING
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert "first characters" in tools["explain_flow"].description
        explained = await agent.ask("explain_flow", flow="order-17")
        assert "waiting for its start" in explained.text
        assert waiting in explained.text
        assert (await agent.ask("explain_flow", flow=waiting[:24])).text[:40] == explained.text[:40]
        listed = (await agent.ask("list_waiting")).data
        (flow,) = listed["flows"]
        assert (flow["id"], flow["status"], listed["more"]) == (waiting, "waiting", False)
        assert flow["why"].startswith("waiting for its start at ")
        assert {one["id"] for one in (await agent.ask("list_waiting", status="any")).data["flows"]} == {waiting, failed}
        assert (await agent.ask("list_waiting", status="any", limit=1)).data["more"]

    talk(play)


def test_an_agent_previews_and_lints_a_policy(run: Command) -> None:
    started(run)

    async def play(agent: Agent) -> None:
        preview = (await agent.ask("preview_policy", policy="[retry: 3, backoff: 30s]")).data
        assert preview["notation"] == "brackets"
        assert len(preview["previews"][0]["rows"]) == 4
        findings = (await agent.ask("lint_policy", policy='{"max_retries": -1}')).data["findings"]
        assert any(one["severity"] == "error" or one["id"] for one in findings)
        refused = (await agent.ask("preview_policy", policy="[retires: 3]")).refused()
        assert "did you mean 'retry'?" in refused
        refused = (await agent.ask("preview_policy", policy="[retry: 3]", failure="!!")).refused()
        assert refused.startswith("failure: '!!' is not a failure")

    talk(play)


def test_payloads_are_hidden_unless_they_are_asked_for(run: Command) -> None:
    flow_id = dead(run)

    async def hidden(agent: Agent) -> None:
        (letter,) = (await agent.ask("list_dead_letters")).data["dead_letters"]
        assert (letter["flow_id"], letter["step"], letter["attempts"]) == (flow_id, "cli_pay", 3)
        assert letter["message"].startswith("redacted (")
        assert letter["payload"].startswith("redacted (")
        assert "u1" not in (await agent.ask("explain_flow", flow=flow_id)).text

    async def shown(agent: Agent) -> None:
        (letter,) = (await agent.ask("list_dead_letters")).data["dead_letters"]
        assert (letter["message"][:9], "u1" in letter["payload"]) == ("no answer", True)
        assert "u1" in (await agent.ask("explain_flow", flow=flow_id)).text

    talk(hidden)
    talk(shown, "--payloads")


def test_dead_letters_are_redriven_only_where_it_is_allowed(run: Command) -> None:
    flow_id = dead(run)

    async def refused(agent: Agent) -> None:
        told = await agent.ask("redrive_dead_letters", flows=[flow_id], why="back")
        assert "redrive_dead_letters" in told.refused()

    async def allowed(agent: Agent) -> None:
        assert sorted(await agent.tools()) == sorted([*READING, "redrive_dead_letters"])
        assert not (await agent.tools())["redrive_dead_letters"].annotations.read_only_hint
        assert (await agent.ask("redrive_dead_letters", flows=[flow_id], why=" ")).refused().startswith("why: ")
        done = (await agent.ask("redrive_dead_letters", flows=[flow_id[:24]], why="the bank is back")).data
        assert done == {"redriven": [flow_id], "not_dead_or_compensated": []}
        again = (await agent.ask("redrive_dead_letters", flows=[flow_id], why="again")).data
        assert again == {"redriven": [], "not_dead_or_compensated": [flow_id]}

    talk(refused)
    assert run("dead", "--json").data["dead_letters"] != []
    talk(allowed, "--allow-redrive")
    assert run("dead", "--json").data["dead_letters"] == []
    entry = run("audit", "--json").data["entries"][-1]
    assert (entry["action"], entry["target"], entry["detail"]) == ("dead.redrive", flow_id, "the bank is back")
    assert entry["origin"].startswith("mcp on ")


def test_what_is_wrong_is_one_line(run: Command) -> None:
    started(run)

    async def play(agent: Agent) -> None:
        for tool, arguments, told in (
            ("explain_flow", {"flow": "nothing"}, "no flow nothing in sqlite:"),
            ("explain_flow", {}, "flow: Field required"),
            ("list_waiting", {"status": "asleep"}, "status: 'asleep' is not allowed; use one of waiting, ready"),
            ("list_waiting", {"limit": 10_000}, "limit: 10000 is not allowed; use a whole number from 1 to 50"),
            ("list_waiting", {"limit": "many"}, "limit: Input should be a valid integer"),
            ("list_dead_letters", {"kind": "old"}, "kind: 'old' is not allowed; use one of "),
            ("lint_policy", {"policy": "x" * 2_000_000}, "policy: "),
        ):
            refused = (await agent.ask(tool, **arguments)).refused()
            assert refused.startswith(told), refused
            assert "redrive flows" not in refused
            assert len(refused) <= 1000

    talk(play)


def test_an_answer_is_bounded() -> None:
    async def long() -> str:
        """Say much."""
        return "x" * (integration.LONGEST_ANSWER + 1)

    async def play() -> None:
        server = integration._Server("test")
        server.add_tool(long, structured_output=False)
        result = await server.call_tool("long", {})
        assert len(result.content[0].text) < integration.LONGEST_ANSWER + 100
        assert result.content[0].text.endswith(f"\n... cut after {integration.LONGEST_ANSWER} characters")

    asyncio.run(play())


def test_a_store_that_does_not_exist_is_refused_at_once(run: Command) -> None:
    assert "there is no such file" in run("mcp").refused()
