"""Nodes of LangGraph: retried by LangGraph with redrive's judgement, or by redrive."""

import asyncio
from collections.abc import Callable
from typing import Any, TypedDict

import openai
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt

import redrive
from redrive.integrations import openai as redrive_openai
from redrive.integrations.langgraph import guarded_node, retry_on, retry_on_by
from redrive.testing import FlakyServer, NoWaits

from .model_server import HELLO, chat, openai_client, refusal


class State(TypedDict, total=False):
    question: str
    answer: str


def graph_of(node: Any, **settings: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", node, **settings)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=InMemorySaver())


CONFIG: Any = {"configurable": {"thread_id": "1"}}
AT_ONCE: dict[str, Any] = {"initial_interval": 0.0, "jitter": False, "max_interval": 0.0}


def asking(client: openai.OpenAI) -> Callable[[State], State]:
    def ask(state: State) -> State:
        answer = client.chat.completions.create(model="m", messages=HELLO)
        return {"answer": answer.choices[0].message.content or ""}

    return ask


@pytest.mark.parametrize(
    ("reply", "requests"),
    [(refusal(529), 3), (503, 3), (refusal(400), 1), (refusal(429, "insufficient_quota"), 1)],
)
def test_langgraph_retries_what_redrive_calls_transient(reply: Any, requests: int) -> None:
    with FlakyServer(then=reply) as server, openai_client(server) as client:
        node = asking(redrive_openai.owned(client))
        graph = graph_of(node, retry_policy=RetryPolicy(max_attempts=3, retry_on=retry_on, **AT_ONCE))
        with pytest.raises(openai.APIStatusError):
            graph.invoke({"question": "Hello"}, CONFIG)
        assert len(server.seen) == requests


def test_a_policy_says_what_else_is_retried() -> None:
    predicate = retry_on_by(redrive.Policy(retry_on=(redrive.TRANSIENT, KeyError), never_on=TimeoutError))
    errors = (KeyError(), ConnectionError(), TimeoutError(), ValueError())
    assert [predicate(error) for error in errors] == [True, True, False, False]
    assert (retry_on(ConnectionError()), retry_on(ValueError()), retry_on(RuntimeError())) == (True, False, False)
    with pytest.raises(TypeError, match="without one, use retry_on"):
        retry_on_by("attempts: 3")  # type: ignore[arg-type]


def test_redrive_retries_a_node_and_obeys_the_vendor(clock: NoWaits) -> None:
    with FlakyServer(refusal(429, retry_after="7"), then=chat("Hi")) as server, openai_client(server) as client:
        graph = graph_of(guarded_node(asking(redrive_openai.owned(client)), attempts=3, dependency="model"))
        assert graph.invoke({"question": "Hello"}, CONFIG)["answer"] == "Hi"
        assert len(server.seen) == 2
    assert 6 < clock.waits[0] <= 7


def test_an_async_node_and_a_guarded_call_inside_it() -> None:
    calls: list[str] = []

    @redrive.retry(attempts=3)
    async def fetch() -> str:
        calls.append("fetch")
        raise ConnectionError("down")

    @guarded_node(attempts=2)
    async def ask(state: State) -> State:
        return {"answer": await fetch()}

    with pytest.raises(ConnectionError) as caught:
        asyncio.run(graph_of(ask).ainvoke({"question": "Hello"}, CONFIG))
    assert calls == ["fetch", "fetch"], "the node owns the retries"
    report = redrive.report_of(caught.value)
    assert report is not None
    assert (report.operation, report.made) == ("ask", 2)


def test_an_interrupt_is_no_failure_and_the_node_goes_on_when_it_is_resumed() -> None:
    entered: list[str] = []

    @guarded_node(attempts=3, retry_on=redrive.ANYTHING, fallback={"answer": "none"})
    def ask(state: State) -> State:
        entered.append(state["question"])
        return {"answer": interrupt("Really?")}

    graph = graph_of(ask)
    paused = graph.invoke({"question": "Delete?"}, CONFIG)
    assert paused["__interrupt__"][0].value == "Really?"
    assert entered == ["Delete?"]
    assert graph.invoke(Command(resume="yes"), CONFIG)["answer"] == "yes"


def test_an_interrupt_of_an_async_node() -> None:
    entered: list[str] = []

    @guarded_node(attempts=3, retry_on=redrive.ANYTHING)
    async def ask(state: State) -> State:
        entered.append(state["question"])
        return {"answer": interrupt("Really?")}

    paused = asyncio.run(graph_of(ask).ainvoke({"question": "Delete?"}, CONFIG))
    assert paused["__interrupt__"][0].value == "Really?"
    assert entered == ["Delete?"]


def test_a_node_keeps_its_name_and_its_parameters() -> None:
    def ask(state: State, config: Any) -> State:
        """Asks."""
        return {"answer": config["configurable"]["thread_id"]}

    guarded = guarded_node(ask)
    assert (guarded.__name__, guarded.__doc__) == ("ask", "Asks.")

    class Node:
        def __call__(self, state: State) -> State:
            return {}

    with pytest.raises(TypeError, match="takes a function, not Node"):
        guarded_node(Node())
