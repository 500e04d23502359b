"""`llm.Guard`: makes guarded model calls, with one model or a chain of them."""

from collections.abc import Iterable
from typing import Any, Unpack

import msgspec

from redrive.calls import async_driver, sync_driver
from redrive.calls.retrier import Retrier
from redrive.calls.retry_protocol import Outcome, Succeeded
from redrive.calls.settings import PolicySettings, policy_from
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.matching import NOTHING, Failures, as_match
from redrive.integrations.llm.model import Model
from redrive.integrations.llm.model_call import ModelChain, ModelRequest
from redrive.integrations.llm.model_report import ModelReport
from redrive.integrations.llm.response_shapes import text_of
from redrive.integrations.llm.streams import AsyncChunks, Chunks
from redrive.policies.policy import Policy
from redrive.telemetry.stream import Listener

# Answers take minutes: the SDKs' own limit is ten.
MODEL_POLICY = Policy(attempts=3, deadline=600.0)


class Answer(msgspec.Struct, frozen=True):
    """A model's answer, and what it took to get it."""

    response: Any
    """As the SDK or the function returned it."""
    report: ModelReport

    @property
    def text(self) -> str:
        """The text of the response, whichever API it came from."""
        return text_of(self.response)


class Guard:
    """Guards the calls of one model, or of several that are asked in order.

    guard = Guard(Model(openai.OpenAI(), "gpt-5"), Model(anthropic.Anthropic(), "claude-sonnet-5"), attempts=4)
    answer = guard.call(messages=[{"role": "user", "content": "Hello"}], max_tokens=500)

    A guard holds no state of a call: make it once and use it anywhere.
    """

    def __init__(
        self,
        *models: Model,
        policy: Policy | None = None,
        operation: str | None = None,
        fall_back_on: Failures = NOTHING,
        classifier: Classifier = DEFAULT_CLASSIFIER,
        independent: bool = False,
        on_event: Listener | Iterable[Listener] = (),
        **settings: Unpack[PolicySettings],
    ) -> None:
        """
        models: the next one is asked when one was given up because it is overloaded, down or out of credit, because
            its circuit is open or because its limits are reached.
        policy: for each model; 3 attempts within 10 minutes if omitted; `settings` override its fields.
        operation: the name in logs and reports; the model's name if omitted.
        fall_back_on: other failures that lead to the next model, such as 400 or a class of errors.
        classifier: distinguishes transient failures from permanent ones.
        independent: retry even inside another guarded call, which otherwise owns the retries.
        on_event: hooks for the events of these calls.
        """
        for model in models:
            if not isinstance(model, Model):
                raise TypeError(f"Guard: {type(model).__name__} is not a Model; write Guard(Model(client, 'gpt-5'))")
        if not models:
            raise TypeError("Guard: name at least one model: Guard(Model(client, 'gpt-5'))")
        if len({model.is_async for model in models}) > 1:
            raise TypeError("Guard: the models must all be async or all be sync; use the same kind of client for each")
        self._is_async = models[0].is_async
        general = policy_from(settings, policy or MODEL_POLICY)
        self._chain = ModelChain(
            tuple(
                (
                    model,
                    Retrier(
                        model.policy or general,
                        operation=operation,
                        dependency=model.dependency,
                        classifier=classifier,
                        independent=independent,
                        on_event=on_event,
                    ),
                )
                for model in models
            ),
            as_match(fall_back_on),
        )

    def call(self, **arguments: Any) -> Answer:
        """Ask until a model answers; the arguments are those of the SDK's method, without `model`.

        Raises the error of the model, or ModelsFailedError when several were asked; `llm.report_of` has the report.
        """
        self._check_kind(False, "call")
        chain = self._chain.call(arguments, False, _ignore)
        request, outcome = next(chain), None
        try:
            while True:
                outcome = sync_driver.run_call(request.call, _ask, (request,))
                request = chain.send(outcome)
        except StopIteration as stop:
            return _answer(outcome, stop.value)
        finally:
            del outcome

    async def acall(self, **arguments: Any) -> Answer:
        """Do the same with async clients and coroutine functions."""
        self._check_kind(True, "acall")
        chain = self._chain.call(arguments, False, _ignore)
        request, outcome = next(chain), None
        try:
            while True:
                outcome = await async_driver.run_call(request.call, _ask_async, (request,))
                request = chain.send(outcome)
        except StopIteration as stop:
            return _answer(outcome, stop.value)
        finally:
            del outcome

    def stream(self, **arguments: Any) -> Chunks:
        """Iterate over the chunks of an answer. A failure before the first output is retried, and may lead to the next
        model; after it, StreamBrokenError is raised. A client gets `stream=True`; a function yields its chunks.
        """
        self._check_kind(False, "stream")
        return Chunks(lambda on_report: self._chain.call(arguments, True, on_report))

    def astream(self, **arguments: Any) -> AsyncChunks:
        """Do the same with async clients and async generator functions: `async for chunk in guard.astream(...)`."""
        self._check_kind(True, "astream")
        return AsyncChunks(lambda on_report: self._chain.call(arguments, True, on_report))

    def _check_kind(self, is_async: bool, name: str) -> None:
        if is_async != self._is_async:
            other = name.removeprefix("a") if is_async else f"a{name}"
            raise TypeError(
                f"{name}: the models of this guard are {'async' if self._is_async else 'sync'}; use guard.{other}(...)"
            )

    def __repr__(self) -> str:
        return f"Guard({', '.join(model.name for model, _ in self._chain.models)})"


def _ask(request: ModelRequest) -> Any:
    with request.reading():
        response = request.accept_whole(request.send())
    request.finished()
    return response


async def _ask_async(request: ModelRequest) -> Any:
    with request.reading():
        response = request.accept_whole(await request.send())
    request.finished()
    return response


def _ignore(report: ModelReport) -> None:
    """The report is in the answer or on the error."""


def _answer(outcome: Outcome | None, report: ModelReport) -> Answer:
    assert isinstance(outcome, Succeeded)  # noqa: S101 - the chain returns only after an answer
    return Answer(outcome.result, report)
