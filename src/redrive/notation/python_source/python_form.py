"""Writes a policy as Python code."""

import builtins
from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import Match
from redrive.notation.formats.native import failures_as_texts
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter, write_percentage
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule

_WIDTH = 100


def write_python(
    policy: Policy,
    form: str = "redrive.Policy(...)",
    names: Mapping[str, str] | None = None,
    only_in_python: Mapping[str, str] | None = None,
) -> str:
    """Return the Python code of a policy; settings that have their default are left out.

    `form`: what takes the settings, with "..." in their place. `names`: class name -> what the source calls it.
    `only_in_python`: further settings, as expressions.
    """
    changed = [field for field in Policy.__struct_fields__ if getattr(policy, field) != getattr(DEFAULT_POLICY, field)]
    settings = {field: _expression(getattr(policy, field), names or {}) for field in changed}
    if "jitter" in settings and "Policy(" not in form:
        # The decorator takes it in a shorter form than Policy does.
        settings["jitter"] = _short_jitter(policy.jitter)
    settings |= only_in_python or {}
    if settings.get("retry_on") == "redrive.TRANSIENT":
        del settings["retry_on"]
    before, _, after = form.rpartition("...")
    arguments = [f"{field}={text}" for field, text in settings.items()]
    line = f"{before}{', '.join(arguments)}{after}"
    if len(line) <= _WIDTH:
        return line
    return f"{before}\n" + "".join(f"    {one},\n" for one in arguments) + after


def _expression(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, Match):
        return _match(value, names)
    if isinstance(value, Backoff):
        factor = f", factor={_number(value.factor)}" if value.kind == "exponential" and value.factor != 2 else ""
        return f"redrive.{value.kind}({_number(value.base)}{factor})"
    if isinstance(value, Jitter):
        amount = f", {_number(value.amount)}" if value.kind in ("additive", "proportional") else ""
        return f'redrive.policies.Jitter("{value.kind}"{amount})'
    if isinstance(value, Rule):
        fields = [(field, getattr(value, field)) for field in Rule.__struct_fields__]
        given = [f"{field}={_expression(one, names)}" for field, one in fields if one is not None]
        return f"redrive.Rule({', '.join(given)})"
    if isinstance(value, tuple):
        return f"({''.join(f'{_expression(one, names)}, ' for one in value).rstrip()})"
    return _number(value) if isinstance(value, float) else repr(value)


def _short_jitter(jitter: Jitter) -> str:
    if jitter.kind == "additive":
        return _number(jitter.amount)
    return f'"{write_percentage(jitter.amount)}"' if jitter.kind == "proportional" else f'"{jitter.kind}"'


def _match(match: Match, names: Mapping[str, str]) -> str:
    if not match:
        return "redrive.failures.NOTHING"
    texts = [_failure(text, names) for text in failures_as_texts(match, "retry_on")]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _failure(text: str, names: Mapping[str, str]) -> str:
    if text in ("any", "transient"):
        return "redrive.ANYTHING" if text == "any" else "redrive.TRANSIENT"
    builtin = getattr(builtins, text, None)
    if isinstance(builtin, type) and issubclass(builtin, Exception):
        return text
    return names.get(text) or f'"{text}"'


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
