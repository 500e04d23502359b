"""Tokens and cost of model calls: as the response reports them, and as estimated before the call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from redrive.integrations.llm.response_shapes import field
from redrive.resilience.limits import Demand

CHARACTERS_PER_TOKEN = 4
# An image or a file counts as this many tokens: its length in base64 says nothing.
TOKENS_OF_A_FILE = 1000
_FILES = frozenset({"data", "file_data", "file_url", "image_url", "url", "b64_json"})
_INPUTS = ("messages", "input", "prompt", "system", "instructions", "tools", "functions")
_LONGEST_OUTPUT = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_DEEPEST = 12


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one call."""

    input: int = 0
    """All input tokens, those read from a cache included."""
    output: int = 0
    cached_input: int = 0
    """The part of the input that was read from a cache."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cached_input=self.cached_input + other.cached_input,
        )


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a model costs per million tokens, in any currency; use the same one for all models."""

    input: float
    output: float
    cached_input: float | None = None
    """Input that is read from a cache; as `input` if omitted."""

    def __new__(cls, *unnamed: Any, **_prices: Any) -> "Price":
        if unnamed:
            raise TypeError("Price: name the prices, per million tokens: Price(input=1.25, output=10.0)")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            value = getattr(self, name)
            optional = name == "cached_input" and value is None
            if not optional and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9):
                raise ValueError(f"price of {name}: {value!r:.40} is not allowed; use a number from 0")

    def of(self, tokens: Tokens) -> float:
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, tokens.input - tokens.cached_input)
        return (fresh * self.input + tokens.cached_input * cached + tokens.output * self.output) / 1e6


def demand_of(tokens: Tokens, price: Price | None) -> Demand:
    return Demand(tokens=tokens.total, cost=0.0 if price is None else price.of(tokens))


def tokens_of(part: Any) -> Tokens | None:
    """Return the tokens that a response or a stream chunk reports; None when it reports none."""
    for holder in (part, field(part, "message"), field(part, "response")):
        usage = field(holder, "usage")
        if usage is None:
            continue
        if (prompt := _count(usage, "prompt_tokens")) is not None:
            cached = _count(field(usage, "prompt_tokens_details"), "cached_tokens") or 0
            return Tokens(input=prompt, output=_count(usage, "completion_tokens") or 0, cached_input=cached)
        fresh, output = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        if fresh is None and output is None:
            continue
        details = field(usage, "input_tokens_details")
        if details is not None:
            cached = _count(details, "cached_tokens") or 0
            return Tokens(input=fresh or 0, output=output or 0, cached_input=cached)
        # Anthropic counts what it writes to and reads from its cache apart.
        read, written = _count(usage, "cache_read_input_tokens") or 0, _count(usage, "cache_creation_input_tokens") or 0
        return Tokens(input=(fresh or 0) + read + written, output=output or 0, cached_input=read)
    return None


def later_of(first: Tokens | None, second: Tokens | None) -> Tokens | None:
    """Combine two reports of one stream: counts only grow, and a later report may leave some out."""
    if first is None or second is None:
        return first or second
    return Tokens(
        input=max(first.input, second.input),
        output=max(first.output, second.output),
        cached_input=max(first.cached_input, second.cached_input),
    )


def _count(usage: Any, name: str) -> int | None:
    value = field(usage, name) if usage is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def estimated_tokens(arguments: Mapping[str, Any]) -> Tokens:
    """Estimate a request's tokens: a quarter of its characters, plus the longest output that it allows."""
    longest = [value for name in _LONGEST_OUTPUT if isinstance(value := arguments.get(name), int)]
    return Tokens(
        input=sum(_size(arguments.get(name), "", 0) for name in _INPUTS) // CHARACTERS_PER_TOKEN,
        output=max(longest, default=0),
    )


def _size(value: Any, key: str, depth: int) -> int:
    """Return the characters of a value, at any depth."""
    if isinstance(value, str):
        return min(len(value), TOKENS_OF_A_FILE * CHARACTERS_PER_TOKEN) if key in _FILES else len(value)
    if depth >= _DEEPEST:
        return 0
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _size(item, str(name), depth + 1) for name, item in value.items())
    if isinstance(value, list | tuple):
        return sum(_size(item, key, depth + 1) for item in value)
    return 1 if value is not None else 0
