"""Agents of pydantic-ai in workflows: recorded, retried by redrive alone, and not asked again after a crash."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import redrive
from redrive import RetryPolicy, Workflow, workflow
from redrive.integrations.pydantic_ai import _BODIES, RedriveDurability
from redrive.testing import FlakyServer, Reply, crash_everywhere, run_flow

from .model_server import KEY, chat, refusal

CITIES = ("Rome", "Oslo")
asked: list[str] = []
failing: list[Exception] = []


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    asked.clear()
    failing.clear()
    yield
    assert not _BODIES, "what an operation left behind"
    gc.collect()


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    asked.append("model")
    if failing:
        raise failing.pop()
    if len(messages) == 1:
        return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in CITIES])
    said = [part.content for part in messages[-1].parts if part.part_kind == "tool-return"]
    return ModelResponse(parts=[TextPart("; ".join(str(one) for one in said))])


agent = Agent(
    FunctionModel(think),
    name="forecaster",
    capabilities=[RedriveDurability(tool_policies={"weather": RetryPolicy(attempts=2, backoff_seconds=1)})],
)


@agent.tool_plain
def weather(city: str) -> str:
    asked.append(city)
    if failing:
        raise failing.pop()
    return f"{city}: sunny"


@workflow
class Forecast(Workflow):
    async def run(self, question: str) -> str:
        return (await agent.run(question)).output


def test_each_request_and_each_tool_call_is_a_recorded_action() -> None:
    outcome = run_flow(Forecast.call("Weather?"))
    assert outcome.result == "Rome: sunny; Oslo: sunny"
    assert outcome.steps == [
        "forecaster.model_request",
        "forecaster.call_tool",
        "forecaster.call_tool",
        "forecaster.model_request",
    ]
    assert '"about":"weather"' in str(outcome)


def test_requests_and_tool_calls_are_retried_with_their_policies() -> None:
    failing.append(ConnectionError("the model is down"))
    outcome = run_flow(Forecast.call("Weather?"))
    assert outcome.result == "Rome: sunny; Oslo: sunny"
    assert outcome.attempts == {1: 2, 2: 1, 3: 1, 4: 1}
    assert asked == ["model", "model", *CITIES, "model"]


def test_a_tool_that_fails_for_good_fails_the_flow_with_its_error() -> None:
    def down(city: str) -> str:
        raise ConnectionError("no weather today")

    def ask_down(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("down", {"city": "Rome"})])

    durability = RedriveDurability(tool_policy=RetryPolicy(attempts=2, backoff_seconds=1))
    broken = Agent(FunctionModel(ask_down), name="broken", tools=[down], capabilities=[durability])

    @workflow
    class Broken(Workflow):
        async def run(self) -> str:
            return (await broken.run("Weather?")).output

    outcome = run_flow(Broken.call())
    assert isinstance(outcome.error, ConnectionError)
    assert outcome.attempts == {1: 1, 2: 2}


def test_after_a_crash_at_any_commit_what_was_recorded_is_not_asked_again() -> None:
    runs = crash_everywhere(Forecast.call("Weather?"))
    assert len(runs) >= 8
    for run in runs:
        assert run.outcome.result == "Rome: sunny; Oslo: sunny"
        # At most the attempts that ran when the worker died are made again.
        assert len(run.outcome.executed) <= 4 + 2


def test_outside_of_a_workflow_the_agent_runs_as_ever() -> None:
    assert asyncio.run(agent.run("Weather?")).output == "Rome: sunny; Oslo: sunny"


def with_server(server: FlakyServer) -> Agent[None, str]:
    # Connections that are kept would outlive the event loop of the flow.
    http = openai.DefaultAsyncHttpxClient(
        verify=False, trust_env=False, limits=openai.DEFAULT_CONNECTION_LIMITS.__class__(max_keepalive_connections=0)
    )
    client = openai.AsyncOpenAI(api_key=KEY, base_url=server.url, http_client=http, max_retries=5)
    model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    durability = RedriveDurability(model_policy=redrive.Policy(attempts=3))
    return Agent(model, name="caller", capabilities=[durability])


def run_with(*replies: Any, then: Any) -> tuple[Any, int]:
    with FlakyServer(*replies, then=then) as server:
        caller = with_server(server)

        @workflow
        class Call(Workflow):
            async def run(self) -> str:
                return (await caller.run("Hello")).output

        return run_flow(Call.call()), len(server.seen)


@pytest.mark.promise("L4")
def test_the_sdk_does_not_retry_beside_redrive_and_the_vendor_is_obeyed() -> None:
    outcome, requests = run_with(refusal(429, retry_after="42"), Reply(fault="reset"), then=chat("Hi"))
    assert (outcome.result, requests) == ("Hi", 3)
    assert outcome.attempts == {1: 3}
    assert outcome.waits[0] == 42


@pytest.mark.parametrize(("reply", "requests"), [(500, 3), (refusal(400), 1), (refusal(429, "insufficient_quota"), 1)])
def test_failures_of_the_model_count_as_what_they_are(reply: Any, requests: int) -> None:
    outcome, made = run_with(then=reply)
    assert made == requests
    assert isinstance(outcome.error, ModelAPIError)


def test_a_policy_for_a_misspelled_tool_is_told_once() -> None:
    def tools(policies: dict[str, RetryPolicy]) -> Agent[None, str]:
        made = Agent(FunctionModel(think), name="misspelled", capabilities=[RedriveDurability(tool_policies=policies)])
        made.tool_plain(weather)
        return made

    once = RetryPolicy(attempts=1)
    wrong = tools({"wether": once})
    with pytest.warns(RuntimeWarning, match="has no tool 'wether'; did you mean 'weather'"):
        asyncio.run(wrong.run("Weather?"))
    # Warnings are errors here.
    asyncio.run(wrong.run("Weather?"))
    # Tools that may come later, and similar names that are both right.
    asyncio.run(tools({"weather": once, "weather2": once, "book_flight": once}).run("Weather?"))
