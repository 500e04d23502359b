"""Takes functions out of settings: a policy in Python can call them, a policy as text cannot."""

from collections.abc import Mapping
from typing import Any

from redrive.notation.python_source.found_call import FoundCall
from redrive.notation.python_values import Call, Combined, Name, Unknown
from redrive.notation.reading import NamedWarning

REJECTED = "redrive.errors.ResultRejectedError"
"""What retry_on names so that rejected results are retried."""


class PythonOnly:
    """Settings that only Python code can say."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        """Argument of `redrive.retry` -> the expression for it."""
        self.notes: list[NamedWarning] = []

    def add(self, field: str, expression: str, text: str, found: FoundCall, key: str) -> None:
        self.settings[field] = expression
        self.notes.append(NamedWarning("python-only", text, key, found.positions.get(key, found.at).line))

    def add_result(self, expression: str, found: FoundCall, key: str, *, only: bool) -> None:
        """Add what decides about results. `only`: exceptions are not retried."""
        text = f"`{expression}` decides which results are retried"
        if only:
            text += "; no exception is retried"
            self.settings["retry_on"] = REJECTED
        self.add("retry_result", expression, text, found, key)


def without_functions(found: FoundCall) -> tuple[Mapping[str, Any], PythonOnly]:
    """Return the settings without the functions in them, and those functions."""
    taken = PythonOnly()
    settings = dict(found.settings)
    if found.library == "tenacity" and "retry" in settings:
        _from_tenacity(settings, found, taken)
    elif found.library == "stamina" and _is_function(on := settings.get("on")):
        text = f"{on!r} decides what is retried; a wait that it returns is not obeyed: raise redrive.RetryAfter"
        taken.add("retry_on", repr(on), text, found, "on")
        settings["on"] = Name("Exception")
    elif found.library == "backoff":
        _from_backoff(settings, found, taken)
    return settings, taken


def _from_tenacity(settings: dict[str, Any], found: FoundCall, taken: PythonOnly) -> None:
    retry = settings["retry"]
    parts: tuple[Any, ...] = (retry,)
    if isinstance(retry, Combined) and retry.operator == "|":
        parts = retry.parts
    elif isinstance(retry, Call) and _bare(retry) == "retry_any":
        parts = retry.arguments
    on_error = [_argument(one) for one in parts if _bare(one) == "retry_if_exception"]
    on_result = [_argument(one) for one in parts if _bare(one) == "retry_if_result"]
    others = [one for one in parts if _bare(one) not in ("retry_if_exception", "retry_if_result")]
    if (
        not (on_error or on_result)
        or len(on_result) > 1
        or any(_bare(one) != "retry_if_exception_type" for one in others)
    ):
        return
    if on_result:
        taken.add_result(on_result[0], found, "retry", only=not (on_error or others))
    if on_error:
        classes = [repr(kind) for one in others for kind in _flat(_given(one))]
        expressions = [*classes, *on_error, *([REJECTED] if on_result else [])]
        text = f"{' and '.join(on_error)} decide{'s' if len(on_error) == 1 else ''} what is retried"
        taken.add("retry_on", _tuple(expressions), text, found, "retry")
    if others and not on_error:
        settings["retry"] = others[0] if len(others) == 1 else Combined("|", tuple(others), retry.node)
    else:
        del settings["retry"]


def _from_backoff(settings: dict[str, Any], found: FoundCall, taken: PythonOnly) -> None:
    if (giveup := settings.pop("giveup", None)) is not None:
        taken.add("never_on", repr(giveup), f"{giveup!r} decides what is never retried", found, "giveup")
    if found.call == "on_predicate":
        predicate = settings.get("predicate")
        expression = "lambda result: not result" if predicate is None else repr(predicate)
        taken.add_result(expression, found, "predicate", only=True)
        # The reader needs to know only that there is one.
        settings["predicate"] = True


def _is_function(value: Any) -> bool:
    if isinstance(value, Unknown):
        return True
    # By convention, a class has a capital letter; builtin exceptions have one too.
    return isinstance(value, Name) and value.text.rpartition(".")[2][:1].islower()


def _bare(value: Any) -> str:
    name = value.name if isinstance(value, Call) else ""
    return str(name).rpartition(".")[2]


def _given(call: Call) -> Any:
    return call.arguments[0] if call.arguments else next(iter(call.keywords.values()), Name("Exception"))


def _argument(call: Call) -> str:
    return repr(_given(call))


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _tuple(expressions: list[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"({', '.join(expressions)})"
