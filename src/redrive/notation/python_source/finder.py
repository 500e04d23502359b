"""Finds retry settings in the source of a module: decorators, calls, Celery tasks, Temporal policies and activities."""

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from redrive.errors import NotationError
from redrive.notation.catalogue import NOTATIONS
from redrive.notation.python_nodes import NodeReader
from redrive.notation.python_source.celery_tasks import celery_class, celery_task
from redrive.notation.python_source.found_call import FoundCall
from redrive.notation.python_source.module_names import ModuleNames
from redrive.notation.python_source.temporal_activities import ACTIVITY_CALLS, activity
from redrive.notation.python_values import Call, Name

_CALLS = {
    "tenacity": ("retry", "Retrying", "AsyncRetrying"),
    "stamina": ("retry", "retry_context", "RetryingCaller", "AsyncRetryingCaller"),
    "backoff": ("on_exception", "on_predicate"),
    "temporalio": ("RetryPolicy", *ACTIVITY_CALLS),
}
"""Library -> the calls that take retry settings, by their bare names."""
_STARS = {
    "tenacity": frozenset(
        {
            *("retry", "Retrying", "AsyncRetrying", "stop_after_attempt", "stop_after_delay", "stop_before_delay"),
            *("stop_never", "stop_any", "stop_all", "wait_fixed", "wait_none", "wait_random", "wait_incrementing"),
            *("wait_exponential", "wait_random_exponential", "wait_full_jitter", "wait_exponential_jitter"),
            *("wait_combine", "wait_chain", "retry_if_exception_type", "retry_if_not_exception_type", "retry_any"),
            *("retry_if_exception", "retry_if_result", "retry_if_not_result", "retry_always", "retry_never"),
        }
    ),
    "stamina": frozenset({"retry", "retry_context", "RetryingCaller", "AsyncRetryingCaller"}),
    "backoff": frozenset({"on_exception", "on_predicate", "expo", "constant", "fibo", "full_jitter", "random_jitter"}),
}
_SETTINGS_OF_RETRYING = ("sleep", "stop", "wait", "retry", "before", "after", "before_sleep", "reraise")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_calls(tree: ast.Module, text: str, source: str) -> list[FoundCall]:
    """Return all retry settings in a module, in the order of the source."""
    finder = _Finder(tree, text, source)
    finder.visit(tree)
    return sorted(finder.found, key=lambda one: one.at)


class _Around(NamedTuple):
    """What encloses a piece of code."""

    name: str = ""
    """The function, class or variable that it belongs to."""
    hidden: frozenset[str] = frozenset()
    """Names that the enclosing functions use for their own."""
    of_class: str = ""
    """The class whose body it stands in."""


class _Finder:
    def __init__(self, tree: ast.Module, text: str, source: str) -> None:
        self.found: list[FoundCall] = []
        self._plain_reader = NodeReader(text, source, lenient=True)
        self._names = ModuleNames(tree, _STARS)
        self._read: set[int] = set()

    def visit(self, root: ast.AST) -> None:
        pending: list[tuple[ast.AST, _Around]] = [(root, _Around())]
        while pending:
            node, around = pending.pop()
            inside = around
            if isinstance(node, _Function):
                inside = _Around(node.name, around.hidden | _own_names(node))
                self._function(node, around)
            elif isinstance(node, ast.ClassDef):
                inside = _Around(node.name, around.hidden, node.name)
                self._add(celery_class(node, self._reader(inside), self._names))
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                name = self._reader(around).dotted_name(target) or around.name
                inside = _Around(name, around.hidden, around.of_class)
            elif isinstance(node, ast.Call) and id(node) not in self._read:
                self._call(node, around.name, around, None)
            # Decorators are evaluated outside the function.
            outside = set(map(id, node.decorator_list)) if isinstance(node, _Function) else set[int]()
            pending += [
                (child, around if id(child) in outside else inside)
                for child in reversed(list(ast.iter_child_nodes(node)))
            ]

    def _reader(self, around: _Around) -> NodeReader:
        names = self._names
        return self._plain_reader.with_names(lambda name: names.resolve(name, around.hidden, around.of_class))

    def _function(self, node: _Function, around: _Around) -> None:
        reader = self._reader(around)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self._read.add(id(decorator))
                self._call(decorator, node.name, around, node)
            elif _library_of(reader.qualified_name(decorator) or "") in ("tenacity", "stamina"):
                call = Call(reader.qualified_name(decorator) or "", (), {}, decorator, reader.position(decorator), {})
                self._add(self._library_call(call, node.name, node))

    def _call(self, node: ast.Call, name: str, around: _Around, function: _Function | None) -> None:
        reader = self._reader(around)
        called = reader.qualified_name(node.func) or ""
        library = _library_of(called)
        is_task = function is not None and not library
        if not library and not is_task:
            return
        try:
            call = reader.value(node)
        except NotationError as error:
            if library:
                bare = called.rpartition(".")[2]
                at = reader.position(node)
                problem = error.problem
                self._add(FoundCall(library=library, call=bare, name=name, at=at, settings={}, problem=problem))
            return
        if not isinstance(call, Call):
            return
        if is_task:
            self._add(celery_task(call, function, reader, self._names))
        elif library == "temporal" and call.name.rpartition(".")[2] in ACTIVITY_CALLS:
            for keyword in node.keywords:
                if keyword.arg == "retry_policy":
                    self._read.add(id(keyword.value))
            self._add(activity(call))
        else:
            self._add(self._library_call(call, name, function))

    def _library_call(self, call: Call, name: str, function: _Function | None) -> FoundCall:
        library, bare = _library_of(call.name), call.name.rpartition(".")[2]
        positional = NOTATIONS[library].positional.get(bare, ())
        if library == "tenacity" and bare != "retry":
            positional = _SETTINGS_OF_RETRYING
        extra = call.arguments[len(positional) :]
        # @retry(function) is the bare decorator, called by hand.
        problem = f"the argument {extra[0]!r} has no name" if extra and not isinstance(extra[0], Name) else ""
        return FoundCall(
            library=library,
            call=bare,
            name=name or bare,
            at=call.at,
            settings=dict(zip(positional, call.arguments, strict=False)) | call.keywords,
            positions=call.keyword_positions,
            function=function,
            problem=problem,
        )

    def _add(self, found: FoundCall | None) -> None:
        if found is not None:
            self.found.append(found)


def _library_of(qualified: str) -> str:
    """Return the notation of a library's call; "" for any other call."""
    package, _, rest = qualified.partition(".")
    if package == "temporalio" and not rest.startswith(("common.", "workflow.")):
        # Its protocol has messages of the same names.
        return ""
    if rest.rpartition(".")[2] not in _CALLS.get(package, ()):
        return ""
    return "temporal" if package == "temporalio" else package


def _own_names(node: _Function) -> frozenset[str]:
    """Return the names that a function uses for its arguments and variables."""
    arguments = node.args
    given: list[ast.arg | None] = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    given += [arguments.vararg, arguments.kwarg]
    names = {one.arg for one in given if one is not None}
    return frozenset(names | set(_stored(node)))


def _stored(node: _Function) -> Iterator[str]:
    shared: set[Any] = {name for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names}
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store) and one.id not in shared:
            yield one.id
