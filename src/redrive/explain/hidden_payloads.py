"""What a reader without the right to payloads sees of a flow: what happened and when, not the values and the texts."""

import re
from typing import Any

import msgspec
from msgspec import structs

from redrive.failures.failure import Failure
from redrive.flows.errors.stored_error import StoredError
from redrive.flows.events import ItemGaveUp, Line
from redrive.formatting.text import summarize, summarize_call
from redrive.policies.decision import GiveUp, RetryAt

# Texts that come from the definition, the policy or the engine. All others may hold what a flow works with.
_PLAIN_TEXTS = frozenset(
    {
        "step",
        "state",
        "compensates",
        "patch",
        "kind",
        "by",
        "type",
        "policy_from",
        "dependency",
        "signal",
        "update",
        "id",
        "version",
    }
)
_HIDDEN_JSON = re.compile(rb'\{"redacted":true,"bytes":([0-9]+)\}')
_PLAIN_JSON = frozenset({"policy"})


def hidden_text(text: str) -> str:
    """Return what is shown instead of a text: its size. An empty text stays."""
    return f"redacted ({len(text.encode())} bytes)" if text else text


def hidden_json(value: bytes | msgspec.Raw) -> msgspec.Raw:
    """Return what is shown instead of a JSON value: its size."""
    return msgspec.Raw(b'{"redacted":true,"bytes":%d}' % len(bytes(value)))


def value_text(value: bytes | msgspec.Raw) -> str:
    """Return a JSON value in a few words; for a hidden one, its size."""
    return _hidden_as_text(value) or summarize(bytes(value).decode())


def call_text(arguments: bytes | msgspec.Raw) -> str:
    """Return the arguments of a call in a few words; for hidden ones, their size."""
    return _hidden_as_text(arguments) or summarize_call(bytes(arguments).decode())


def _hidden_as_text(value: bytes | msgspec.Raw) -> str | None:
    found = _HIDDEN_JSON.fullmatch(bytes(value))
    return None if found is None else f"redacted ({found[1].decode()} bytes)"


def hidden_error(error: str) -> str:
    """Return "Type: message" without the message."""
    kind, _, message = error.partition(": ")
    return f"{kind}: {hidden_text(message)}" if message else kind


def hide_lines(lines: list[Line]) -> list[Line]:
    """Return the log without what its flow works with."""
    return [Line(seq, at, _without_payload(event)) for seq, at, event in lines]


def _without_payload(event: Any) -> Any:
    changed: dict[str, Any] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        shown = _shown(event, name, value)
        if shown is not value:
            changed[name] = shown
    return structs.replace(event, **changed) if changed else event


def _shown(event: Any, name: str, value: Any) -> Any:
    if isinstance(value, msgspec.Raw):
        return value if name in _PLAIN_JSON else hidden_json(value)
    if isinstance(value, str):
        # `why` is what an operator wrote where the event names one, and elsewhere the words of a step.
        is_plain = name in _PLAIN_TEXTS or (name == "why" and hasattr(event, "by"))
        return value if is_plain or not value else hidden_text(value)
    if isinstance(value, StoredError):
        return _error(value)
    if isinstance(value, Failure):
        return structs.replace(value, message=hidden_text(value.message), retry_after_note="", error=None)
    if isinstance(value, RetryAt | GiveUp):
        return _decision(event, value)
    if isinstance(value, dict):
        return {key: _shown(event, name, one) for key, one in value.items()}
    return value


def _decision(event: Any, decision: RetryAt | GiveUp) -> RetryAt | GiveUp:
    because = decision.because
    # The engine's own words, except where an item gave up because the result that an operator gave was refused.
    is_error = isinstance(event, ItemGaveUp) and isinstance(decision, GiveUp) and decision.kind == "permanent"
    detail = hidden_text(because.detail) if is_error else because.detail
    if detail == because.detail and not because.retry_after_note:
        return decision
    return structs.replace(decision, because=structs.replace(because, retry_after_note="", detail=detail))


def _error(error: StoredError) -> StoredError:
    """Keep the class of the error and of its causes, which `except` and the policy go by."""
    return StoredError(
        type=error.type,
        message=hidden_text(error.message),
        lineage=error.lineage,
        module=error.module,
        cause=None if error.cause is None else _error(error.cause),
        members=tuple(map(_error, error.members)),
    )
