"""Read the handler of a step: `endpoint`, `action` or `handler`."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from redrive.errors import NotationError
from redrive.failures.redaction import redact
from redrive.failures.secret_names import names_a_secret
from redrive.flows.action import Action, action
from redrive.flows.graphs.notation.problems import MOST_KEYS, Problems
from redrive.flows.graphs.spec import ActionHandler, Handler, HttpHandler, Mode
from redrive.notation.fields import Fields
from redrive.notation.place import Place

HANDLER_KEYS = ("endpoint", "action", "handler")
HTTP_ONLY = ("mode", "statuses", "conflict")
LONGEST_ADDRESS = 2000
CATEGORIES = ("transient", "permanent", "unknown")

_SECRET_PARAMETERS = ("key", "pass", "code")
"""Names that are ordinary words elsewhere, and secrets in the query of an address."""
_LONGEST_ACTION = 200
_MODES: dict[str, Mode] = {"sync": "sync", "async": "async"}
_ONE_OF_THEM = (
    "endpoint: http://host/path, action: NAME of a function with @action, or handler: 'package.module:function'"
)


def read_handler(fields: Fields, problems: Problems, imports: bool) -> Handler | None:
    """The handler; None when it has problems. `imports` allows functions to be imported."""
    given = [key for key in HANDLER_KEYS if key in fields]
    if len(given) != 1:
        key = given[1] if given else "endpoint"
        problem = f"{' and '.join(given)} are given" if given else "missing: the step has no handler"
        problems.add(fields.refuse(key, f"one of {_ONE_OF_THEM}", problem))
        return None
    if given == ["endpoint"]:
        return _read_http(fields, problems)
    for key in HTTP_ONLY:
        if key in fields:
            problems.add(fields.refuse(key, "only with an endpoint", f"{given[0]} is a Python function"))
    with problems:
        if given == ["action"]:
            return ActionHandler(action=_read_action_name(fields))
        return ActionHandler(action=_imported(fields.data["handler"], fields.place.at("handler"), imports))
    return None


def _read_http(fields: Fields, problems: Problems) -> HttpHandler | None:
    endpoint = mode = None
    statuses: dict[str, Literal["transient", "permanent", "unknown"]] = {}
    with problems:
        endpoint = _read_address(fields.data["endpoint"], fields.place.at("endpoint"))
    with problems:
        mode = fields.choice("mode", "sync", _MODES)
    if "statuses" in fields:
        statuses = _read_statuses(fields.data["statuses"], fields.place.at("statuses"), problems)
    with problems:
        lock = fields.choice("conflict", False, {"reread": True})
        if lock and "409" in statuses:
            raise fields.refuse("conflict", "either conflict or a status of 409", "statuses already define 409")
        if endpoint is not None and mode is not None:
            return HttpHandler(endpoint=endpoint, mode=mode, statuses=statuses, conflict_is_lock=lock)
    return None


def _read_address(value: Any, place: Place) -> str:
    allowed = "an address such as http://127.0.0.1:9000/reserve or https://host/path"
    if not isinstance(value, str) or len(value) > LONGEST_ADDRESS or not value.isprintable() or " " in value:
        raise place.refuse(value, "not an address", allowed)
    try:
        parts = urlsplit(value)
        host, has_user, _ = parts.hostname, parts.username is not None, parts.port
    except ValueError:
        raise place.refuse(value, "not an address", allowed) from None
    if parts.scheme not in ("http", "https") or not host:
        raise place.refuse(value, "not an http or https address", allowed)
    if has_user:
        raise place.refuse("***", "a user or password in an address would appear in events and logs", allowed)
    if _has_secret(value, parts.query):
        problem = "a secret in an address would appear in events and logs"
        raise place.refuse("***", problem, f"{allowed}; the handler can check the signature of requests instead")
    if parts.fragment:
        raise place.refuse(value, "the part after # is never sent", allowed)
    return value


def _has_secret(address: str, query: str) -> bool:
    """Whether the address has a parameter that is named like a secret, or looks like it holds one."""
    names = [name.lower() for name, _ in parse_qsl(query, keep_blank_values=True)]
    if any(names_a_secret(name) or name in _SECRET_PARAMETERS for name in names):
        return True
    return redact(address, LONGEST_ADDRESS) != address


def _read_statuses(data: Any, place: Place, problems: Problems) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        allowed = "statuses and what they mean, such as {404: transient}"
        problems.add(place.refuse(data, "not a mapping", allowed))
        return {}
    if len(data) > MOST_KEYS:
        problems.add(place.refuse(None, f"{len(data):,} keys are too many", "HTTP statuses from 200 to 599"))
        return {}
    statuses: dict[str, Any] = {}
    for status, meaning in data.items():
        text = str(status)
        at = place.at(text)
        if not (len(text) == 3 and text.isascii() and text.isdigit() and "200" <= text <= "599"):
            problems.add(at.refuse(meaning, "not a status", "HTTP statuses from 200 to 599"))
        elif meaning not in CATEGORIES:
            problems.add(at.refuse(meaning, "not allowed", ", ".join(CATEGORIES)))
        else:
            statuses[text] = meaning
    return statuses


def _read_action_name(fields: Fields) -> str:
    name = fields.data["action"]
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_ACTION and name.isprintable():
        return name
    raise fields.refuse("action", "the name of a function that is registered with @action")


def _imported(value: Any, place: Place, imports: bool) -> str:
    allowed = "'package.module:function'"
    if not imports:
        problem = "functions are only imported for graphs that this process loads from its own files"
        raise place.refuse(value, problem, "action: NAME of a function with @action")
    module, _, path = value.partition(":") if isinstance(value, str) else ("", "", "")
    if not module or not path:
        raise place.refuse(value, "not a function", allowed)
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        return action_of(found).name
    except NotationError:
        raise
    except Exception as error:  # noqa: BLE001 - a module may raise anything on import
        problem = f"cannot be imported: {type(error).__name__}: {error}"
        raise place.refuse(value, problem, f"{allowed}, which the worker can import") from None


def action_of(function: Action[Any, Any] | Callable[..., Any]) -> Action[Any, Any]:
    """The function as an action; a plain function is registered under its full name."""
    if isinstance(function, Action):
        return function
    if not callable(function):
        raise TypeError(f"{function!r} is not a function")
    name = f"{function.__module__}.{function.__qualname__}"
    made: Action[Any, Any] = action(name=name)(function)
    return made
