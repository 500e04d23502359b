"""Finds clients in Python source that retry by themselves beside redrive, so that the attempts multiply.

Only what the source itself shows is reported: a client made with settings from elsewhere gets the benefit of the doubt.
Nothing is imported or run.
"""

import ast
from collections.abc import Callable, Iterator
from typing import Any

import msgspec


class SecondOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A client whose own retries are on, in a file that uses redrive."""

    line: int
    message: str
    advice: str


def second_owners(module: ast.Module) -> list[SecondOwner]:
    """Return the clients in a file that retry by themselves beside redrive, in the order of their lines."""
    names = _imported_names(module)
    if not any(name == "redrive" or name.startswith("redrive.") for name in names.values()):
        return []
    owned_names, owned_calls = _owned(module, names)
    found = []
    for target, call in _calls(module):
        made = _qualified(call.func, names)
        rule = _RULES.get(made)
        if rule is None or id(call) in owned_calls or target in owned_names:
            continue
        library, retries = rule
        if retries(call):
            advice = f"write redrive.integrations.{library}.owned({ast.unparse(call.func)}(...))"
            if made == "boto3.resource":
                advice = f"write {ast.unparse(call.func)}(..., config=redrive.integrations.botocore.owned_config())"
            found.append(_second_owner(call, made, advice))
    found += _global_stripe(module, names, owned_names)
    return sorted(found, key=lambda one: one.line)


def _second_owner(node: ast.expr | ast.stmt, what: str, advice: str) -> SecondOwner:
    message = f"{what} retries by itself, beside redrive: the attempts multiply"
    return SecondOwner(line=node.lineno, message=message, advice=advice)


def _global_stripe(module: ast.Module, names: dict[str, str], owned_names: set[str]) -> list[SecondOwner]:
    """Return where the file configures Stripe's global API, such as `stripe.Charge.create`, with its retries on."""
    if any(names.get(name) == "stripe" for name in owned_names):
        return []
    settings: dict[str, ast.Assign] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            settings.setdefault(_qualified(node.targets[0], names), node)
    found = settings.get("stripe.max_network_retries")
    if found is None:
        # By default they are on.
        found = settings.get("stripe.api_key")
    elif not isinstance(found.value, ast.Constant) or found.value.value in (0, None):
        found = None
    if found is None or not isinstance(target := found.targets[0], ast.Attribute):
        return []
    advice = f"write redrive.integrations.stripe.owned({ast.unparse(target.value)})"
    return [_second_owner(found, "the global API of stripe", advice)]


def _imported_names(module: ast.Module) -> dict[str, str]:
    """Return what the names that the file imports stand for, by their local name."""
    names: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = one.name if one.asname else one.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
    return names


def _qualified(node: ast.expr, names: dict[str, str]) -> str:
    """Return the full name that an expression such as `openai.OpenAI` stands for; empty if it is no name."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(attributes)])


def _owned(module: ast.Module, names: dict[str, str]) -> tuple[set[str], set[int]]:
    """Return the variables and the calls whose clients are passed to `owned`, or copied without retries."""
    variables: set[str] = set()
    calls: set[int] = set()
    for _, call in _calls(module):
        made = _qualified(call.func, names)
        copied = isinstance(call.func, ast.Attribute) and call.func.attr == "with_options" and not _is_on(call, 2)
        if made.startswith("redrive.integrations.") and made.endswith(".owned"):
            passed: list[ast.expr] = call.args
        elif copied and isinstance(call.func, ast.Attribute):
            passed = [call.func.value]
        else:
            continue
        variables |= {ast.unparse(one) for one in passed}
        calls |= {id(one) for one in passed}
    return variables, calls


def _calls(module: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each call, with the variable that its result is assigned to."""
    targets: dict[int, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            targets[id(node.value)] = ast.unparse(node.targets[0])
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets[id(node.value)] = ast.unparse(node.target)
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            yield targets.get(id(node), ""), node


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _has_unseen_settings(call: ast.Call) -> bool:
    """Whether settings come from a `**mapping`."""
    return any(one.arg is None for one in call.keywords)


def _is_on(call: ast.Call, default: int, name: str = "max_retries") -> bool:
    """Whether the number of retries is, or by default would be, a number other than 0."""
    value = _keyword(call, name)
    if value is None:
        return bool(default) and not _has_unseen_settings(call)
    return isinstance(value, ast.Constant) and value.value not in (0, None)


def _botocore_retries(call: ast.Call) -> bool:
    return _keyword(call, "config") is None and not _has_unseen_settings(call)


def _pool_retries(call: ast.Call) -> bool:
    value = _keyword(call, "retries")
    return not _has_unseen_settings(call) and (
        value is None or (isinstance(value, ast.Constant) and value.value is not False and value.value != 0)
    )


def _adapter_retries(call: ast.Call) -> bool:
    value = _keyword(call, "max_retries")
    return isinstance(value, ast.Call) or _is_on(call, 0)


def _sdk_retries(call: ast.Call) -> bool:
    return _is_on(call, 2)


def _stripe_retries(call: ast.Call) -> bool:
    return _is_on(call, 0, "max_network_retries")


_OPENAI = ("OpenAI", "AzureOpenAI", "Client")
_ANTHROPIC = ("Anthropic", "AnthropicBedrock", "AnthropicVertex", "AnthropicFoundry", "Client")

_RULES: dict[str, tuple[str, Callable[[ast.Call], Any]]] = {
    **{f"openai.{kind}{name}": ("openai", _sdk_retries) for name in _OPENAI for kind in ("", "Async")},
    **{f"anthropic.{kind}{name}": ("anthropic", _sdk_retries) for name in _ANTHROPIC for kind in ("", "Async")},
    "boto3.client": ("botocore", _botocore_retries),
    "boto3.resource": ("botocore", _botocore_retries),
    "stripe.StripeClient": ("stripe", _stripe_retries),
    "urllib3.PoolManager": ("urllib3", _pool_retries),
    "requests.adapters.HTTPAdapter": ("urllib3", _adapter_retries),
}
"""The integration, and whether a call makes a client that retries, by what is called."""
