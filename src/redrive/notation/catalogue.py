"""The catalogue of notations and what each of them supports."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from redrive.notation.formats import (
    backoff,
    bracket_writer,
    brackets,
    celery,
    litellm,
    native,
    stage,
    stamina,
    step_functions,
    template,
    temporal,
    tenacity,
    work_config,
)
from redrive.notation.meaning import Meaning, meaning_of
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.policies.policy import Policy


class Notation(msgspec.Struct, frozen=True, kw_only=True):
    """One notation for policies."""

    name: str
    summary: str
    """A short description."""
    keys: tuple[str, ...] = ()
    """The keys of its mapping, by which it is recognised."""
    identified_by: tuple[str, ...] = ()
    """At least one of these keys must be present to recognise it, because the others are too common."""
    wrapper: tuple[str, ...] = ()
    """Keys under which the mapping may appear in a larger document."""
    calls: tuple[str, ...] = ()
    """Python calls that take it as their keyword arguments."""
    whole: bool = False
    """A document in it is one policy: what looks like policies inside is part of that."""
    positional: Mapping[str, tuple[str, ...]] = {}
    """Bare name of a call -> the names of its positional arguments."""
    read: Callable[[Any, Place], Reading] | None = None
    """Reads it from plain data."""
    read_text: Callable[[str, str], Reading] | None = None
    """Reads it from text in its own syntax."""
    write: Callable[[Policy], str] | None = None
    """Writes the closest policy it can express; None for notations that are only read."""
    spelling: Mapping[str, str] = {}
    """Policy field -> the key for it."""


def _writes(write: Callable[[Meaning], str]) -> Callable[[Policy], str]:
    return lambda policy: write(meaning_of(policy))


NOTATIONS: Mapping[str, Notation] = {
    notation.name: notation
    for notation in (
        Notation(
            name=native.NAME,
            summary="redrive's own, as YAML",
            keys=native.KEYS,
            read=native.read,
            write=native.write_yaml,
            spelling=native.SPELLING,
        ),
        Notation(
            name="native_json",
            summary="redrive's own, as JSON",
            read=native.read,
            write=native.write_json,
            spelling=native.SPELLING,
        ),
        Notation(
            name=work_config.NAME,
            summary="a step's work_config, as JSON",
            keys=work_config.KEYS,
            wrapper=("work_config",),
            read=work_config.read,
            write=_writes(work_config.write),
            spelling=work_config.SPELLING,
        ),
        Notation(
            name=template.NAME,
            summary="a step template's retry:, as YAML",
            keys=(*template.KEYS, *template.RENAMED),
            wrapper=("retry",),
            read=template.read,
            write=_writes(template.write),
            spelling=template.SPELLING,
        ),
        Notation(
            name=brackets.NAME,
            summary="bracket text, such as [NetworkError -> retry: 5, backoff: 2m]",
            read_text=brackets.read_text,
            write=_writes(bracket_writer.write),
            spelling=brackets.SPELLING,
        ),
        Notation(
            name=stage.NAME,
            summary="arguments of a stage's RetryInterceptor",
            keys=stage.KEYS,
            wrapper=("retry_config",),
            calls=(stage.CALL,),
            read=stage.read,
            write=_writes(stage.write),
            spelling=stage.SPELLING,
        ),
        Notation(
            name=temporal.NAME,
            summary="Temporal's RetryPolicy, as JSON or as the Python call (read only)",
            keys=temporal.KEYS,
            wrapper=("retryPolicy", "retry_policy"),
            calls=temporal.CALLS,
            positional=temporal.POSITIONAL,
            read=temporal.read,
            spelling=temporal.SPELLING,
        ),
        Notation(
            name=step_functions.NAME,
            summary="a Step Functions Retry array, as JSON (read only)",
            wrapper=("Retry",),
            read=step_functions.read,
            spelling=step_functions.SPELLING,
        ),
        Notation(
            name=tenacity.NAME,
            summary="tenacity's settings, as a mapping or a decorator (read only)",
            keys=tenacity.KEYS,
            identified_by=("stop", "wait", "retry", "before_sleep"),
            calls=tenacity.CALLS,
            read=tenacity.read,
            spelling=tenacity.SPELLING,
        ),
        Notation(
            name=stamina.NAME,
            summary="stamina's settings, as a mapping or a decorator (read only)",
            keys=stamina.KEYS,
            identified_by=("on", "wait_initial", "wait_max", "wait_jitter", "wait_exp_base"),
            calls=stamina.CALLS,
            read=stamina.read,
            spelling=stamina.SPELLING,
        ),
        Notation(
            name=litellm.NAME,
            summary="litellm's settings, as arguments or a proxy's config (read only)",
            keys=litellm.KEYS,
            identified_by=litellm.IDENTIFIED_BY,
            whole=True,
            calls=litellm.CALLS,
            read=litellm.read,
            spelling=litellm.SPELLING,
        ),
        Notation(
            name=backoff.NAME,
            summary="arguments of the backoff library's decorators (read only)",
            keys=backoff.KEYS,
            identified_by=("wait_gen", "max_tries", "max_time", "giveup"),
            calls=backoff.CALLS,
            positional=backoff.POSITIONAL,
            read=backoff.read,
            spelling=backoff.SPELLING,
        ),
        Notation(
            name=celery.NAME,
            summary="the retry options of a Celery task, as a mapping or a decorator (read only)",
            keys=celery.KEYS,
            identified_by=("autoretry_for", "retry_backoff", "default_retry_delay", "retry_kwargs"),
            calls=celery.CALLS,
            read=celery.read,
            spelling=celery.SPELLING,
        ),
    )
}
"""Name -> notation."""

READABLE = tuple(name for name in NOTATIONS if name != "native_json")
WRITABLE = tuple(name for name, notation in NOTATIONS.items() if notation.write is not None)
