"""One model that a guard may ask: whom to call, with what, at which price and within which limits."""

import contextlib
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from redrive.calls.function_kinds import is_async
from redrive.calls.shared_dependencies import as_dependency
from redrive.failures.redaction import redact
from redrive.integrations import anthropic, openai
from redrive.integrations.llm.usage import Price, Tokens, estimated_tokens
from redrive.policies.policy import Policy
from redrive.resilience.dependencies import Dependency
from redrive.resilience.limits import Limits, LimitSettings

# Where the SDKs keep the method that makes a request, by what their clients have.
_METHODS = (("chat", "chat.completions.create"), ("messages", "messages.create"))


class Model:
    """A model of a provider: a client of openai or anthropic, sync or async, or any function.

    Model(openai.OpenAI(), "gpt-5", price=Price(input=1.25, output=10))
    Model(anthropic.AsyncAnthropic(), "claude-sonnet-5", arguments={"max_tokens": 1024})
    Model(ask_local_model, "llama")
    """

    def __new__(cls, *given: Any, **_settings: Any) -> "Model":
        if len(given) == 1:
            name = given[0] if isinstance(given[0], str) else "gpt-5"
            raise TypeError(f"Model: give a client, then the name: Model(client, {name!r})")
        return super().__new__(cls)

    def __init__(
        self,
        client: Any,
        name: str,
        /,
        *,
        method: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        price: Price | None = None,
        limits: LimitSettings | None = None,
        dependency: str | Dependency | None = None,
        policy: Policy | None = None,
        estimate: Callable[[Mapping[str, Any]], Tokens] = estimated_tokens,
    ) -> None:
        """
        name: the model's name; a client gets it as `model=`, a function gets only its arguments.
        method: the client's method; "chat.completions.create" for openai and "messages.create" for anthropic if
            omitted, else for example "responses.create".
        arguments: sent with every request; those of a call override them.
        price: per million tokens. Without it, calls cost nothing.
        limits: requests and tokens per minute and cost per day, for all calls to the dependency. A limit of cost needs
            a price.
        dependency: what shares circuit, retry budget and limits; "host/model" if omitted.
        policy: for this model instead of the guard's.
        estimate: the tokens of a request, from its arguments, before it is sent.
        """
        if not isinstance(name, str) or not name:
            raise TypeError(f"Model: {name!r} is not a name; write Model(client, 'gpt-5')")
        if isinstance(client, str):
            raise TypeError(f"Model: give the client first, then the name: Model(client, {client!r})")
        for setting, value, kind in (("price", price, Price), ("policy", policy, Policy)):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{setting}: {type(value).__name__} is not allowed; use {kind.__name__}(...)")
        if not callable(estimate):
            raise TypeError(
                f"estimate: {estimate!r:.40} is not allowed; use a function of the request's arguments that returns "
                "Tokens(input=..., output=...)"
            )
        self.name = name
        self.price = price
        self.policy = policy
        self._estimate = estimate
        self._arguments = dict(arguments or {})
        method = method or next((path for part, path in _METHODS if hasattr(client, part)), None)
        self.method = method
        """The client's method; None: the model is a function."""
        if method is not None:
            self.function = _method(_owned(client), method)
            # The SDKs wrap their coroutine functions, which hides what they are; `close` is not wrapped.
            self.is_async = inspect.iscoroutinefunction(getattr(client, "close", None))
        elif callable(client):
            self.function = client
            self.is_async = is_async(client) or inspect.isasyncgenfunction(client)
        else:
            raise TypeError(
                f"Model: {type(client).__name__} is neither a client of openai or anthropic nor a function; "
                'name the method to call: method="responses.create"'
            )
        where = as_dependency(dependency or _place(client, name))
        assert where is not None  # noqa: S101 - narrows for the type checkers
        if isinstance(limits, LimitSettings) and limits.cost_per_day is not None and price is None:
            raise ValueError(
                f"cost_per_day: the calls of {name!r} have no price, so this limit would never apply; "
                "add price=Price(input=..., output=...), per million tokens"
            )
        if limits is not None:
            _set_limits(where, Limits(limits))
        self.dependency = where

    def request(self, arguments: Mapping[str, Any], stream: bool) -> dict[str, Any]:
        """Return the arguments of a request."""
        request = {**self._arguments, **arguments}
        if self.method is not None:
            if "model" in request:
                raise TypeError(f"model={request['model']!r} is not allowed: the guard's models name the model")
            request["model"] = self.name
            if stream:
                request["stream"] = True
            elif request.get("stream"):
                raise TypeError(f"stream=True is not allowed: use guard.{'a' * self.is_async}stream(...)")
        return request

    def estimated(self, request: Mapping[str, Any]) -> Tokens:
        tokens = self._estimate(request)
        if not isinstance(tokens, Tokens):
            raise TypeError(
                f"estimate: returned {type(tokens).__name__}, not Tokens; return Tokens(input=..., output=...)"
            )
        return tokens

    def cost_of(self, tokens: Tokens) -> float:
        return 0.0 if self.price is None else self.price.of(tokens)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, dependency={self.dependency.name!r})"


def _set_limits(dependency: Dependency, limits: Limits) -> None:
    before = dependency.limits
    if before is not None and before.settings == limits.settings:
        # What was used so far still counts.
        return
    dependency.limits = limits
    if before is not None:
        warnings.warn(
            f"the limits of {dependency.name!r} were set before, for all its calls: {before} is replaced by {limits}; "
            "set the limits in one place, or give the model a dependency= of its own",
            RuntimeWarning,
            stacklevel=3,
        )


def _owned(client: Any) -> Any:
    """Return the client with its own retries off, if it is one that has any."""
    for owned in (openai.owned, anthropic.owned):
        with contextlib.suppress(TypeError):
            return owned(client)
    return client


def _method(client: Any, path: str) -> Any:
    found = client
    for part in path.split("."):
        found = None if part.startswith("_") else getattr(found, part, None)
        if found is None:
            break
    if not callable(found):
        raise TypeError(f"method: {type(client).__name__} has no {path!r}; write it as in 'chat.completions.create'")
    return found


def _place(client: Any, name: str) -> str:
    url = urlsplit(str(getattr(client, "base_url", "")))
    # Without the user and the password that an address may have.
    host = url.netloc.rpartition("@")[2]
    return redact(f"{host}/{name}" if host else name)
