"""Import an action in a process of its own, by the module and name of its function."""

import asyncio
import functools
import importlib
import inspect
import os
import sys
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location, spec_from_loader
from types import ModuleType
from typing import Any

from redrive.errors import UnknownDefinitionError
from redrive.failures.redaction import redact
from redrive.flows.action import Action, action_named
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.runners.process_pool import ProcessPool
from redrive.runners.process_protocol import LOADED_MAIN, NotImportable


@functools.cache
def import_action(name: str, module_name: str, file: str | None, qualname: str) -> Action[Any, Any]:
    """Return the action that is registered by this name or, if another module registers it, one of its function."""
    ProcessPool.loading = module_name
    try:
        module = _import_module(module_name, file)
    except (Exception, SystemExit) as error:
        raise NotImportable(name, f"{module_name} cannot be imported there: {redact(str(error))}") from error
    finally:
        ProcessPool.loading = ""
    with suppress(UnknownDefinitionError):
        action = action_named(name)
        function = action.function
        if (function.__module__, getattr(function, "__qualname__", "")) == (module.__name__, qualname):
            return _synchronous(action)
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise NotImportable(name, f"{module_name} has no {qualname}")
    return _synchronous(found if isinstance(found, Action) else Action(found, name, DURABLE_DEFAULT, "process"))


def _import_module(name: str, file: str | None) -> ModuleType:
    """Import the module by name; if it is not found, or another module has the name, from its file."""
    for known_as in (name, LOADED_MAIN):
        try:
            module = importlib.import_module(known_as)
        except ModuleNotFoundError as error:
            if file is None or not f"{known_as}.".startswith(f"{error.name}."):
                raise
            return _import_file(known_as, file)
        if file is None or _is_from(module, file):
            return module
    raise ImportError(f"another module has its name: {module.__file__}")


def _import_file(name: str, file: str) -> ModuleType:
    # The name of a program need not end in .py.
    spec = spec_from_file_location(name, file) or spec_from_loader(name, SourceFileLoader(name, file))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _is_from(module: ModuleType, file: str) -> bool:
    found = getattr(module, "__file__", None) or ""
    try:
        return found == file or os.path.samefile(found, file)
    except OSError:
        return False


def _synchronous(action: Action[Any, Any]) -> Action[Any, Any]:
    """Return the action with a plain function: a coroutine function gets an event loop for each call."""
    function = action.function
    if not inspect.iscoroutinefunction(function):
        return action

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return Action(run, action.name, action.policy, action.executor)
