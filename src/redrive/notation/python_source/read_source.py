"""Reads all policies in a Python file. The file is parsed; nothing in it is imported or run."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from redrive.errors import NotationError, PolicyError
from redrive.failures.matching import ANYTHING, TRANSIENT, Match
from redrive.failures.redaction import redact
from redrive.notation.errors import Path, notation_error, printable
from redrive.notation.formats.temporal import PYTHON
from redrive.notation.place import Place, Position
from redrive.notation.python_calls import with_plain_line_ends
from redrive.notation.python_source.finder import find_calls
from redrive.notation.python_source.found_call import FoundCall
from redrive.notation.python_source.predicates import REJECTED, PythonOnly, without_functions
from redrive.notation.python_source.python_form import write_python
from redrive.notation.python_values import Call, Combined, Name, Unknown, as_plain
from redrive.notation.read import read_as
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.source import LARGEST_TEXT, check_size
from redrive.policies.policy import Policy

LARGEST_SOURCE = 4 * LARGEST_TEXT
"""The longest Python file that is read, in characters."""

GENERAL_NOTES = (
    NamedWarning(
        "retry-after",
        "redrive also obeys a server's Retry-After: it waits as asked, and gives up above max_retry_after",
    ),
)
"""Differences in meaning that all policies have in common."""

_FORMS = {
    "RetryPolicy": "redrive.Policy(...)",
    "Retrying": "redrive.attempts(...)",
    "AsyncRetrying": "redrive.attempts(...)",
    "retry_context": "redrive.attempts(...)",
    "RetryingCaller": "redrive.Retrier(...)",
    "AsyncRetryingCaller": "redrive.Retrier(...)",
}
_EVERYTHING = (
    "every exception is retried, programming errors included; leave retry_on out to retry transient failures only"
)


class SourcePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy in Python source."""

    name: str
    """What it applies to: a function, a variable, a class."""
    library: str
    """tenacity, stamina, backoff, celery or temporal."""
    call: str
    """What is called, by its bare name."""
    line: int
    reading: Reading
    python: str
    """The code that does the same with redrive."""
    notes: tuple[NamedWarning, ...] = ()
    """Every difference in meaning."""
    only_in_python: Mapping[str, str] = {}
    """Settings that the policy as text does not have, because they are functions."""
    function: ast.AST | None = None
    """The function that is decorated."""


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that the source alone does not tell."""

    name: str
    library: str
    line: int
    text: str


class SourceReading(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a Python file."""

    tree: ast.Module
    policies: tuple[SourcePolicy, ...]
    unread: tuple[Unread, ...]


def read_source(text: str, source: str = "<text>") -> SourceReading:
    """Read the retry settings of tenacity, stamina, backoff, Celery and Temporal in a Python file.

    NotationError when it is not Python. Settings that are known only at run time are in `unread`.
    """
    check_size(text, source, LARGEST_SOURCE, "a Python file")
    text = with_plain_line_ends(text)
    tree = _parsed(text, source)
    policies: list[SourcePolicy] = []
    unread: list[Unread] = []
    for found in find_calls(tree, text, source):
        one = _read(found, source)
        if isinstance(one, SourcePolicy):
            policies.append(one)
        else:
            unread.append(one)
    return SourceReading(tree=tree, policies=tuple(policies), unread=tuple(unread))


def _parsed(text: str, source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        problem = f"not readable as Python: {error.msg} (column {error.offset or 1})"
        raise notation_error(problem, allowed="Python source", source=source, line=error.lineno) from None
    except (ValueError, MemoryError, RecursionError):
        raise notation_error("not readable as Python", allowed="Python source", source=source) from None


def _read(found: FoundCall, source: str) -> SourcePolicy | Unread:
    if found.problem:
        return _unread(found, found.problem, found.at.line)
    settings, only_in_python = without_functions(found)
    positions: dict[Path, Position] = {(key,): at for key, at in found.positions.items()}
    positions[()] = found.at
    try:
        reading = read_as(
            found.library, {key: as_plain(value) for key, value in settings.items()}, Place(source, positions)
        )
        policy = _complete(reading.policy, found, only_in_python)
    except NotationError as error:
        subject = f"{error.key}={settings[error.key]!r}: " if error.key in settings else f"{error.key}: "
        return _unread(found, f"{subject}{_reason(error, settings)}", error.line or found.at.line)
    except PolicyError as error:
        return _unread(found, str(error), found.at.line)
    dialect = PYTHON if found.library == "temporal" else found.dialect
    reading = msgspec.structs.replace(reading, policy=policy, dialect=dialect)
    names = {name.text: repr(name) for value in found.settings.values() for name in _names_in(value)}
    names[REJECTED] = REJECTED
    usual = "redrive.Policy(...)" if found.library == "temporal" else "@redrive.retry(...)"
    form = found.form or _FORMS.get(found.call, usual)
    said = {note.key for note in only_in_python.notes}
    warned = [one for one in reading.warnings if one.id != "ignored-setting" or one.key not in said]
    return SourcePolicy(
        name=found.name,
        library=found.library,
        call=found.call,
        line=found.at.line,
        reading=reading,
        python=write_python(policy, form, names, only_in_python.settings),
        notes=(*found.notes, *warned, *only_in_python.notes, *_everything(policy, found)),
        only_in_python=only_in_python.settings,
        function=found.function,
    )


def _complete(policy: Policy, found: FoundCall, only_in_python: PythonOnly) -> Policy:
    """Add what is set beside the settings; a function that decides is replaced by redrive's own judgement."""
    if found.overrides:
        policy = policy.replace(**found.overrides)
    settings, rejected = only_in_python.settings, Match(names=(REJECTED,))
    if "retry_on" in settings:
        return policy.replace(retry_on=rejected if settings["retry_on"] == REJECTED else TRANSIENT)
    if "retry_result" in settings and not {"any", "transient"} & set(policy.retry_on.categories):
        return policy.replace(retry_on=policy.retry_on | rejected)
    return policy


def _everything(policy: Policy, found: FoundCall) -> tuple[NamedWarning, ...]:
    if policy.retry_on != ANYTHING or policy.attempts == 1:
        return ()
    return (NamedWarning("retries-everything", _EVERYTHING, "retry_on", found.at.line),)


def _unread(found: FoundCall, text: str, line: int) -> Unread:
    return Unread(name=found.name, library=found.library, line=line, text=printable(redact(text), longest=400))


def _reason(error: NotationError, settings: Mapping[str, Any]) -> str:
    """Say which names have no value in this file, or else what the setting should be."""
    value = settings.get(error.key)
    unknown = list(dict.fromkeys(repr(one) for one in _unknown_in(value)))
    if unknown:
        return f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not known from this file"
    return f"{error.problem}; allowed: {error.allowed}" if error.allowed else error.problem


def _names_in(value: Any) -> Iterator[Name]:
    return (one for one in _leaves(value) if isinstance(one, Name))


def _unknown_in(value: Any) -> Iterator[Any]:
    """Yield what has no value: variables and other code, but no classes, and no names of the library itself."""
    for one in _leaves(value):
        if isinstance(one, Unknown) or (isinstance(one, Name) and not _is_class_or_library(one)):
            yield one


def _is_class_or_library(name: Name) -> bool:
    package, bare = name.text.partition(".")[0], name.text.rpartition(".")[2]
    # Classes are written in CapWords, constants in capitals.
    return package in ("tenacity", "stamina", "backoff") or (bare[:1].isupper() and not bare.isupper())


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    elif isinstance(value, Call):
        yield from _leaves([*value.arguments, *value.keywords.values()])
    elif isinstance(value, Combined):
        yield from _leaves(value.parts)
    else:
        yield value
