"""Import modules that the command line names: dotted names, or paths to .py files."""

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from redrive.cli.bad_input import BadInput
from redrive.failures.redaction import redact


def import_module(name: str) -> ModuleType:
    """Import a dotted name or a .py file, with the current folder on the path as with `python -m`."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        raise BadInput("the current folder no longer exists; change to another one") from None
    if folder not in sys.path:
        sys.path.insert(0, folder)
    path = Path(name)
    if name.endswith(".py") or os.sep in name:
        name = _module_name(path)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadInput(f"there is no module {name!r}; write a dotted name or a path to a .py file") from None
        raise BadInput(f"{name} cannot be imported: {_describe(error)}{_user_line(error)}") from error
    except (Exception, SystemExit) as error:
        # A SyntaxError names its own line.
        line = "" if isinstance(error, SyntaxError) else _user_line(error)
        raise BadInput(f"{name} cannot be imported: {_describe(error)}{line}") from error


def _module_name(path: Path) -> str:
    """Put the file's folder on the path, and return the name under which the file is imported."""
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file")
    if not path.stem.isidentifier():
        raise BadInput(f"{path}: {path.stem!r} is not a valid module name; rename the file")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    loaded = sys.modules.get(path.stem)
    spec = loaded.__spec__ if loaded is not None else importlib.util.find_spec(path.stem)
    origin = spec.origin if spec else None
    if origin is None or not os.path.exists(origin) or not os.path.samefile(origin, path):
        raise BadInput(f"{path}: another module is already named {path.stem!r} ({origin}); rename the file")
    return path.stem


def _describe(error: BaseException) -> str:
    return redact(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 300)


def _user_line(error: BaseException) -> str:
    """Return the line of the user's own code where the error was raised."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if not file.startswith("<") and module.split(".")[0] not in ("redrive", "importlib"):
            place = f" ({os.path.basename(file)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place
