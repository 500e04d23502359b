"""Reads how a Temporal workflow calls an activity: its retry policy, and the timeouts beside it."""

from datetime import timedelta
from typing import Any

from redrive.notation.formats.temporal import POSITIONAL
from redrive.notation.python_source.found_call import FoundCall
from redrive.notation.python_values import Call, as_plain
from redrive.notation.reading import NamedWarning

ACTIVITY_CALLS = tuple(
    f"{verb}_{kind}"
    for verb in ("execute", "start")
    for kind in ("activity", "activity_method", "activity_class", "local_activity", "local_activity_method")
)
_TIMEOUTS = {"start_to_close_timeout": "attempt_timeout", "schedule_to_close_timeout": "deadline"}
_NO_POLICY = "no retry_policy is given, so Temporal's default applies: everything is retried, without a limit"


def activity(call: Call) -> FoundCall:
    """Return the settings of one call of an activity."""
    given = call.keywords.get("retry_policy")
    settings: dict[str, Any] = {}
    notes: list[NamedWarning] = []
    positions, problem = call.keyword_positions, ""
    if isinstance(given, Call) and given.name.rpartition(".")[2] == "RetryPolicy":
        settings = dict(zip(POSITIONAL["RetryPolicy"], given.arguments, strict=False)) | given.keywords
        positions = given.keyword_positions
    elif given is not None:
        problem = f"retry_policy={given!r} is not known from this file"
    else:
        notes.append(NamedWarning("default-policy", _NO_POLICY, "retry_policy", call.at.line))
    overrides: dict[str, float] = {}
    for key, field in _TIMEOUTS.items():
        timeout = as_plain(call.keywords.get(key))
        if isinstance(timeout, timedelta) and timeout.total_seconds() > 0:
            overrides[field] = timeout.total_seconds()
        elif timeout is not None:
            text = f"{key}={timeout!r} is not known from this file; set {field} by hand"
            notes.append(NamedWarning("not-known", text, key, call.keyword_positions[key].line))
    return FoundCall(
        library="temporal",
        call=call.name.rpartition(".")[2],
        name=repr(call.arguments[0]).strip("'\"") if call.arguments else "activity",
        at=call.at,
        settings=settings,
        positions=positions,
        overrides=overrides,
        notes=tuple(notes),
        problem=problem,
    )
