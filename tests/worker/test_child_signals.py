"""A parent signals its children: once, in order, whatever is killed."""

import asyncio
from typing import Any

import pytest

import redrive
from redrive import Workflow, workflow
from redrive.errors import FlowFinishedError
from redrive.explain.explanation import explain_text
from redrive.flows.message_events import SignalReceived
from redrive.stores.records import FlowQuery
from redrive.testing import FlowApp, crash_everywhere, flow_app, run_flow

pytestmark = pytest.mark.promise("E4")


@workflow(name="told.Child")
class Child(Workflow):
    def __init__(self) -> None:
        self.words: list[str] = []

    @redrive.signal
    def say(self, word: str) -> None:
        self.words.append(word)

    async def run(self) -> list[str]:
        await workflow.wait_for(lambda: "stop" in self.words)
        return self.words


@workflow(name="told.Parent")
class Parent(Workflow):
    async def run(self) -> dict[str, Any]:
        child = await workflow.start_child(Child.call())
        await child.signal(Child.say, "one")
        await asyncio.sleep(60)
        await child.signal("say", word="two")
        await child.signal("say", word="stop")
        found: dict[str, Any] = {"words": await child}
        try:
            await child.signal("say", word="late")
        except FlowFinishedError as error:
            found["late"] = error.status
        return found


EXPECTED = {"words": ["one", "two", "stop"], "late": "completed"}


async def story(app: FlowApp) -> Any:
    handle = await app.start(Parent.call())
    outcome = await app.outcome(handle)
    [child] = await app.flows(FlowQuery(parent=handle.id))
    lines = await app.read_lines(child.id)
    received = [line.event for line in lines if isinstance(line.event, SignalReceived)]
    return outcome.result, len(received), {one.by for one in received}


def test_a_child_gets_the_signals_of_its_parent_in_order(address: str) -> None:
    async def scenario() -> tuple[Any, str]:
        async with flow_app(address) as app:
            told = await story(app)
            [parent] = await app.flows(FlowQuery(definition="workflow:told.Parent"))
            return told, explain_text(await app.explain(parent.id))

    told, text = asyncio.run(scenario())
    assert told == (EXPECTED, 3, {"its parent"})
    assert 'signal say(word="two") was sent to child 1' in text


def test_killed_at_every_commit_a_child_gets_each_signal_once() -> None:
    runs = crash_everywhere(story)
    assert any(run.crashed for run in runs)
    assert all(run.outcome == (EXPECTED, 3, {"its parent"}) for run in runs)


def test_what_cannot_be_a_signal_fails_where_it_is_sent() -> None:
    @workflow(name="told.Wrong")
    class Wrong(Workflow):
        async def run(self) -> None:
            child = await workflow.start_child(Child.call())
            await child.signal(Child.say, 5)

    assert "signal say: argument word" in str(run_flow(Wrong.call()).error)
