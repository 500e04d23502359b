"""Exception classes by name: the class itself where it can be found, otherwise a stand-in with its name and bases."""

import sys
from functools import cache, lru_cache
from pathlib import PurePath
from types import MemberDescriptorType, ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

KEPT_TEXT = "__redrive_text__"
"""The attribute in which a stand-in keeps the text that it prints."""

_MAIN = ("__main__", "__mp_main__")
# The fields of these are all set from the arguments.
_WITHOUT_FIELDS = (BaseExceptionGroup, UnicodeDecodeError, UnicodeEncodeError, UnicodeTranslateError)
_MADE_AT_RUN_TIME = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_LONGEST_LINEAGE = 40
_LONGEST_NAME = 300
_MOST_NAMES = 10_000


class ClassNames(msgspec.Struct, frozen=True):
    """What is stored of an exception class, and how to create and fill instances without running the class's code."""

    module: str
    lineage: tuple[str, ...]
    """Qualified names of the class and its bases, nearest first, without object."""
    native: type[BaseException]
    """The nearest base that is not written in Python; its `__new__` creates the instances."""
    native_fields: tuple[str, ...]
    """Fields of native bases outside of `__dict__`, such as errno; most are set from the arguments."""
    slots: tuple[str, ...]
    """Fields of Python bases outside of `__dict__`."""
    local: bool = False
    """Whether the class cannot be found by its name, only while it is alive."""


_known: WeakKeyDictionary[type, ClassNames] = WeakKeyDictionary()
_alive: WeakValueDictionary[str, type[BaseException]] = WeakValueDictionary()
_locations: dict[str, tuple[str, tuple[str, ...]]] = {}


@cache
def main_name() -> str:
    """The name under which other processes import this program's main module."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return PurePath(file).stem if file else "__main__"


def class_names(kind: type[BaseException]) -> ClassNames:
    try:
        names = _known.get(kind)
    except TypeError:  # the metaclass makes the class unhashable
        return _class_names(kind)
    if names is None:
        names = _class_names(kind)
        if not is_stand_in(kind) and find_class(names.lineage[0]) is not kind:
            names = msgspec.structs.replace(names, local=True)
        _known[kind] = names
    if names.local:
        # The latest class of that name is the one to find: a function that defines a class may run again.
        _alive[names.lineage[0]] = kind
    return names


def _class_names(kind: type[BaseException]) -> ClassNames:
    slots: list[str] = []
    native_fields: list[str] = []
    native: type[BaseException] | None = None
    for base in kind.__mro__:
        fields = slots
        if issubclass(base, BaseException) and not base.__flags__ & _MADE_AT_RUN_TIME:
            native, fields = native or base, native_fields
        if base not in _WITHOUT_FIELDS:
            for name, value in vars(base).items():
                if type(value) is MemberDescriptorType and not name.startswith("__"):
                    fields.append(name)
    # A stand-in that only keeps the text of its base also has the name of its base.
    lineage = tuple(dict.fromkeys(map(_qualified, kind.__mro__[:-1])))[:_LONGEST_LINEAGE]
    return ClassNames(_module(kind), lineage, native or BaseException, tuple(native_fields), tuple(slots))


def _qualified(kind: type) -> str:
    if kind.__module__ == "builtins" and not kind.__flags__ & _MADE_AT_RUN_TIME:
        return f"builtins.{kind.__qualname__}"
    return f"{_module(kind)}.{_encodable(kind.__qualname__)}"


def _module(kind: type) -> str:
    module: Any = kind.__module__
    if not isinstance(module, str):
        return "builtins"
    return main_name() if module in _MAIN else _encodable(module)


def _encodable(name: str) -> str:
    """The name without unpaired surrogates, of bounded length."""
    return name[:_LONGEST_NAME].encode("utf-8", "backslashreplace").decode("utf-8")


def find_class(name: str) -> type[BaseException] | None:
    """The exception class of that name in the modules that are imported already; None when there is none.

    Nothing is imported: a name may come from a row of the store, and importing a module runs its code.
    """
    location = _locations.get(name)
    if location is not None and (kind := _class_at(*location)) is not None:
        return kind
    if "<locals>" not in name:
        parts = tuple(name.split("."))
        for split in range(len(parts) - 1, 0, -1):
            module, path = ".".join(parts[:split]), parts[split:]
            if (kind := _class_at(module, path)) is not None:
                _remember(name, module, path)
                return kind
    return _alive.get(name)


def _remember(name: str, module: str, path: tuple[str, ...]) -> None:
    if len(_locations) > _MOST_NAMES:
        _locations.clear()
    _locations[name] = (module, path)


def _class_at(module: str, path: tuple[str, ...]) -> type[BaseException] | None:
    if module == main_name():
        kind = _walk(sys.modules.get("__main__"), path)
        # A class that the program imported has another name.
        if kind is not None and kind.__module__ in _MAIN:
            return kind
    return _walk(sys.modules.get(module), path)


def _walk(module: ModuleType | None, path: tuple[str, ...]) -> type[BaseException] | None:
    found: Any = module
    for name in path:
        # Not getattr: a module with a lazy __getattr__ could load anything.
        found = getattr(found, "__dict__", {}).get(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def stand_in(lineage: tuple[str, ...], module: str = "") -> type[BaseException]:
    """A class with the first name of the lineage, derived from those of its bases that can be found."""
    made = _stand_in(lineage[:_LONGEST_LINEAGE], module)
    if issubclass(made, BaseException):
        return made
    return cast("type[BaseException]", _named(lineage[0], module, (Exception,)))


def _stand_in(lineage: tuple[str, ...], module: str = "") -> type:
    bases: list[type] = []
    covered: set[str] = set()
    for index, name in enumerate(lineage[1:], 1):
        if name not in covered:
            found = find_class(name)
            base = _stand_in(lineage[index:]) if found is None else found
            bases.append(base)
            covered.update(map(_qualified, base.__mro__))
    while len(bases) > 1:
        try:
            return _named(lineage[0], module, tuple(bases))
        except TypeError:  # built-in bases whose layouts conflict
            bases.pop()
    return _named(lineage[0], module, tuple(bases))


def with_kept_text(kind: type[BaseException]) -> type[BaseException]:
    """A subclass of the same name that prints the text in KEPT_TEXT."""
    return cast("type[BaseException]", _named(_qualified(kind), _module(kind), (kind,)))


def is_stand_in(kind: type) -> bool:
    return KEPT_TEXT in vars(kind)


@lru_cache(maxsize=2048)
def _named(name: str, module: str, bases: tuple[type, ...]) -> type:
    module = module if module and name.startswith(f"{module}.") else _module_part(name)
    path = name[len(module) + 1 :]
    contents = {"__module__": module, "__qualname__": path, "__str__": _kept_text, KEPT_TEXT: None}
    return type(path.rpartition(".")[2], bases, contents)


def _module_part(name: str) -> str:
    """Guess the module in a qualified name: all that comes before the first class-like name, or before a function."""
    parts = name.split(".")
    if "<locals>" in parts:
        return ".".join(parts[: parts.index("<locals>") - 1]) or "builtins"
    split = next((index for index, part in enumerate(parts) if part.lstrip("_")[:1].isupper()), len(parts) - 1)
    return ".".join(parts[:split]) or "builtins"


def _kept_text(error: BaseException) -> str:
    kept = vars(error).get(KEPT_TEXT)
    return kept if isinstance(kept, str) else BaseException.__str__(error)
