"""`redrive query` and `redrive update`: what the flow's own code answers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.cli.test_durable_commands import Command, run, store  # noqa: F401 - fixtures

import redrive
from redrive import Workflow, workflow
from redrive.client.app import App
from redrive.flows.workflows.workflow import WORKFLOWS

pytestmark = pytest.mark.promise("E2")


@workflow(name="CliCart")
class Cart(Workflow):
    def __init__(self) -> None:
        self.items: list[str] = []

    @redrive.query
    def held(self) -> list[str]:
        return self.items

    @redrive.update
    def add(self, item: str) -> int:
        if item == "unicorn":
            raise LookupError("no unicorns left")
        self.items.append(item)
        return len(self.items)

    async def run(self) -> None:
        await workflow.wait_for(lambda: "last" in self.items)


def served(story: Callable[[Any], None]) -> None:
    """Tell a story while a worker runs."""

    async def serve() -> None:
        async with redrive.open() as app:
            await app.start(Cart.call(), key="cart")
            with ThreadPoolExecutor(1) as thread:
                await asyncio.get_running_loop().run_in_executor(thread, story, app)

    asyncio.run(serve())


def test_an_update_is_answered_and_a_query_reads_what_it_changed(run: Command) -> None:  # noqa: F811 - a fixture
    def story(app: App) -> None:
        assert run("update", "cart", "add", "item=book", "--id", "u1", "--by", "bob").out.strip() == "1"
        assert run("update", "cart", "add", "item=book", "--id", "u1").out.strip() == "1"
        failed = run("update", "cart", "add", "item=unicorn")
        assert (failed.code, "the update failed: LookupError: no unicorns left" in failed.err) == (1, True)
        assert "no update 'ad'; did you mean 'add'?" in run("update", "cart", "ad").refused()

    served(story)
    assert run("query", "cart", "held").data == ["book"]
    late = run("update", "cart", "add", "item=pen", "--timeout", "10ms")
    assert (late.code, "may still take effect" in late.err) == (124, True)
    assert "no query 'hold'; did you mean 'held'?" in run("query", "cart", "hold").refused()
    assert "KEY=VALUE" in run("query", "cart", "held", "x").refused()
    [entry] = [one for one in run("audit", "--json").data["entries"] if one["action"] == "flow.update"][-1:]
    assert entry["detail"] == "add"


def test_a_query_without_the_workflows_code_says_which_option_to_give(
    run: Command,  # noqa: F811 - a fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served(lambda app: None)
    monkeypatch.delitem(WORKFLOWS.by_name, "CliCart")
    says = "no workflow is named 'CliCart' here; its code answers: --import MODULE"
    assert says in run("query", "cart", "held").refused()
