"""Reads the retry settings of Celery tasks: the decorator, the task's class, and `self.retry(...)` in the body."""

import ast
from collections.abc import Iterator
from typing import Any

import msgspec

from redrive.notation.formats.celery import KEYS
from redrive.notation.place import Position
from redrive.notation.python_nodes import NodeReader
from redrive.notation.python_source.found_call import FoundCall
from redrive.notation.python_source.module_names import ModuleNames
from redrive.notation.python_values import Call, Name, as_plain
from redrive.notation.reading import NamedWarning
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import NO_JITTER

# Other libraries have tasks too, but not with these options.
_OWN_KEYS = frozenset(KEYS) - {"max_retries"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_DIFFERENT = "the task calls retry(...) with different settings; give each failure a Rule of its own"
_OUTSIDE = "retry(...) is called outside an except clause; raise redrive.RetryAfter(seconds) there instead"


def celery_task(call: Call, function: _Function | None, reader: NodeReader, names: ModuleNames) -> FoundCall | None:
    """Return the settings of a decorated task; None when it is no Celery task, or is never retried."""
    if function is None or not _is_task(call, names):
        return None
    base = call.keywords.get("base")
    settings: dict[str, Any] = {}
    positions: dict[str, Position] = {}
    if isinstance(base, Name) and (of_class := names.classes.get(repr(base))) is not None:
        settings, positions = _class_settings(of_class, reader)
    settings |= {key: value for key, value in call.keywords.items() if key in KEYS}
    positions |= {key: at for key, at in call.keyword_positions.items() if key in KEYS}
    found = FoundCall(
        library="celery",
        call=call.name.rpartition(".")[2],
        name=function.name,
        at=call.at,
        settings=settings,
        positions=positions,
        notes=(*_base_notes(base, call), *_retry_notes(function, reader)),
        function=function,
        form=_form(call, reader),
    )
    if "autoretry_for" in settings:
        return found
    return _with_manual_retries(found, function, reader)


def celery_class(node: ast.ClassDef, reader: NodeReader, names: ModuleNames) -> FoundCall | None:
    """Return the settings of a class derived from Celery's Task; None for other classes, and without settings."""
    bases = [reader.qualified_name(base) or "" for base in node.bases]
    tasks = [base for base in bases if base.rpartition(".")[2] == "Task"]
    if not any(base.startswith("celery.") or _is_app(base, names) for base in tasks):
        return None
    settings, positions = _class_settings(node, reader)
    if not settings.get("autoretry_for"):
        return None
    at = reader.position(node)
    return FoundCall(
        library="celery",
        call="Task",
        name=node.name,
        at=at,
        settings=settings,
        positions=positions,
        notes=(_inherit_note(node.name, at),),
        form="policy = redrive.Policy(...)",
    )


def _form(call: Call, reader: NodeReader) -> str:
    """Return the decorator with redrive's base and policy; options that are not about retries stay as written."""
    node = call.node
    arguments = node.args if isinstance(node, ast.Call) else []
    written = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.Call) else {}
    options = {
        key: reader.text_of(written[key]) if key in written else repr(value)
        for key, value in call.keywords.items()
        if key not in KEYS and key != "policy"
    }
    options = {"base": "RedriveTask"} | options
    given = [*map(reader.text_of, arguments), *(f"{key}={text}" for key, text in options.items())]
    name = reader.text_of(node.func) if isinstance(node, ast.Call) else call.name
    return f"@{name}({', '.join(given)}, policy=redrive.Policy(...))"


def _base_notes(base: Any, call: Call) -> Iterator[NamedWarning]:
    if base is not None and repr(base).rpartition(".")[2] != "RedriveTask":
        yield _inherit_note(repr(base), call.keyword_positions["base"])


def _inherit_note(name: str, at: Position) -> NamedWarning:
    text = f"{name} must inherit from RedriveTask instead of Task: from redrive.integrations.celery import RedriveTask"
    return NamedWarning("base-class", text, "base", at.line)


def _retry_notes(function: _Function, reader: NodeReader) -> list[NamedWarning]:
    lines = sorted(reader.position(node).line for _, node in _retry_calls(function, reader))
    text = "remove self.retry(...) at line {}; raise the error instead, and redrive retries it"
    return [NamedWarning("remove-retry", text.format(line), "retry", line) for line in lines]


def _is_task(call: Call, names: ModuleNames) -> bool:
    bare = call.name.rpartition(".")[2]
    if bare not in ("task", "shared_task", "periodic_task"):
        return False
    return call.name.startswith("celery.") or bool(_OWN_KEYS & set(call.keywords)) or _is_app(call.name, names)


def _is_app(dotted: str, names: ModuleNames) -> bool:
    """Whether `app.task` belongs to an `app = Celery(...)` of this module."""
    made = names.resolve(dotted.partition(".")[0])
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Name | ast.Attribute):
        return False
    called = names.resolve(ast.unparse(made.func))
    return isinstance(called, str) and called.rpartition(".")[2] == "Celery"


def _class_settings(node: ast.ClassDef, reader: NodeReader) -> tuple[dict[str, Any], dict[str, Position]]:
    settings: dict[str, Any] = {}
    positions: dict[str, Position] = {}
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        value = getattr(statement, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and target.id in KEYS and value is not None:
                settings[target.id] = reader.value(value)
                positions[target.id] = reader.position(statement)
    return settings, positions


def _with_manual_retries(found: FoundCall, function: _Function, reader: NodeReader) -> FoundCall | None:
    """Add what `self.retry(...)` in except clauses of the task says; None when it is never called."""
    classes: list[Any] = []
    said: dict[str, tuple[ast.Call, dict[str, Any]]] = {}
    for handler, node in _retry_calls(function, reader):
        if handler is None:
            return msgspec.structs.replace(found, problem=_OUTSIDE)
        caught = Name("Exception") if handler.type is None else reader.value(handler.type)
        classes += caught if isinstance(caught, list) else [caught]
        given = {one.arg: one.value for one in node.keywords if one.arg in ("countdown", "max_retries")}
        said.setdefault(ast.dump(ast.Dict(keys=[], values=list(given.values()))), (node, given))
    if not said:
        return None
    if len(said) > 1:
        return msgspec.structs.replace(found, problem=_DIFFERENT)
    node, given = next(iter(said.values()))
    at = reader.position(node)
    settings = {**found.settings, "autoretry_for": classes}
    positions = {**found.positions, "autoretry_for": at}
    overrides: dict[str, Any] = {}
    # None leaves either of them to the task.
    limit = reader.value(given["max_retries"]) if "max_retries" in given else None
    if limit is not None:
        settings["max_retries"], positions["max_retries"] = limit, at
    countdown = as_plain(reader.value(given["countdown"])) if "countdown" in given else None
    if "countdown" in given and (growing := _growing_countdown(given["countdown"], reader)) is not None:
        overrides = {"backoff": growing, "jitter": NO_JITTER, "max_wait": None}
    elif isinstance(countdown, int | float):
        settings["default_retry_delay"], positions["default_retry_delay"] = countdown, at
    elif countdown is not None:
        problem = f"countdown={ast.unparse(given['countdown'])} is not known from this file"
        return msgspec.structs.replace(found, at=at, problem=problem)
    return msgspec.structs.replace(
        found, settings=settings, positions=positions, overrides=overrides, dialect="celery_retry"
    )


def _retry_calls(function: _Function, reader: NodeReader) -> Iterator[tuple[ast.ExceptHandler | None, ast.Call]]:
    """Yield each call of the task's own `retry` with the innermost except clause around it."""
    first = (*function.args.posonlyargs, *function.args.args)[:1]
    called = {f"{one}.retry" for one in (*(arg.arg for arg in first), function.name)}
    pending: list[tuple[ast.AST, ast.ExceptHandler | None]] = [(function, None)]
    while pending:
        node, handler = pending.pop()
        if isinstance(node, ast.Call) and reader.dotted_name(node.func) in called:
            yield handler, node
        inside = node if isinstance(node, ast.ExceptHandler) else handler
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


def _growing_countdown(node: ast.expr, reader: NodeReader) -> Backoff | None:
    """Read `2 ** self.request.retries` and `30 * 2 ** self.request.retries`; None for anything else."""
    base: Any = 1.0
    power = node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left_is_power = isinstance(node.left, ast.BinOp)
        power, other = (node.left, node.right) if left_is_power else (node.right, node.left)
        base = as_plain(reader.value(other))
    if not isinstance(power, ast.BinOp) or not isinstance(power.op, ast.Pow):
        return None
    factor = as_plain(reader.value(power.left))
    counts_retries = (reader.dotted_name(power.right) or "").endswith(".request.retries")
    if not counts_retries or not all(isinstance(one, int | float) for one in (base, factor)):
        return None
    return Backoff("exponential", float(base), float(factor)) if 1 <= factor <= 1000 and base >= 0 else None
