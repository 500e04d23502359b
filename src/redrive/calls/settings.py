"""The keyword settings of `retry(...)`, `attempts(...)` and `Retrier(...)`, and the policy that they describe."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypedDict

from redrive.errors import PolicyError
from redrive.failures.classifier import Classifier
from redrive.failures.duration import read_duration
from redrive.failures.matching import Failures
from redrive.near_names import did_you_mean
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter, JitterKind, read_percentage
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule, policy_error
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

JITTERS: tuple[JitterKind, ...] = ("none", "full", "equal", "decorrelated")

Duration = float | timedelta | str
"""Seconds, a timedelta, or text such as "30s"."""


class PolicySettings(TypedDict, total=False):
    """The fields of a Policy as keyword arguments. A duration is seconds, a timedelta, or text such as "30s"."""

    attempts: int | None
    """Total attempts, including the first; None: no limit."""
    retry_on: Failures
    """The failures to retry: exception classes, names, statuses or predicates; transient failures by default."""
    never_on: Failures
    """The failures never to retry."""
    deadline: Duration | None
    """Limit for all attempts and waits together; None: no limit."""
    attempt_timeout: Duration | None
    """Limit for one attempt."""
    backoff: Backoff | Duration
    """A Backoff, or the base of exponential backoff."""
    jitter: Jitter | Duration
    """A Jitter; "none", "full", "equal" or "decorrelated"; or the most that is added: "250ms", or "10%" of the wait."""
    max_wait: Duration | None
    """The longest wait between two attempts; None: no limit."""
    max_retry_after: Duration | None
    """The longest Retry-After to obey; None: any."""
    floor: Duration
    """The minimum wait."""
    timeout_retries: int | None
    """Maximum retries after attempts that `attempt_timeout` cut."""
    rules: Iterable[Rule]
    """Checked in order, before `retry_on`."""
    timeout_growth: float
    """After the first timeout, `attempt_timeout` is multiplied by this, once."""
    idempotent: bool | None
    """False: do not retry a failure that may have taken effect."""


class LoopSettings(PolicySettings, total=False):
    """The settings of a loop over attempts; see Retrier."""

    operation: str | None
    dependency: str | Dependency | None
    classifier: Classifier
    reread: Callable[[], Any] | None
    independent: bool
    on_event: Listener | Iterable[Listener]


class GuardSettings(LoopSettings, total=False):
    """The settings of a guarded function; see Retrier."""

    fallback: Any
    retry_result: Callable[[Any], bool] | None


DURATIONS = ("deadline", "attempt_timeout", "max_wait", "max_retry_after", "floor")
SETTING_NAMES = tuple(PolicySettings.__annotations__)


def _known_settings(name: str) -> str:
    known = (*SETTING_NAMES, *LoopSettings.__annotations__, *GuardSettings.__annotations__)
    hint = did_you_mean(name, known, f"settings are {', '.join(dict.fromkeys(known))}")
    return f"{hint} It counts the first attempt too" if "retries" in name and "'attempts'" in hint else hint


def policy_from(settings: PolicySettings, base: Policy | None = None) -> Policy:
    """Return `base`, or the default policy, with these settings; PolicyError names a setting that is invalid."""
    if base is not None and not isinstance(base, Policy):
        raise TypeError(
            f"policy: {type(base).__name__} is not a Policy; write Policy(attempts=5), or a keyword: attempts=5"
        )
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        try:
            if name == "backoff":
                changes["backoff"] = _backoff(value)
            elif name == "jitter":
                changes["jitter"] = _jitter(value)
            elif name in DURATIONS:
                changes[name] = None if value is None else read_duration(value)
            elif name == "rules":
                if not isinstance(value, Iterable):
                    raise TypeError("use a list of Rule(match=..., retries=...)")
                changes["rules"] = tuple(value)
            elif name in SETTING_NAMES:
                changes[name] = value
            else:
                raise TypeError(f"{name!r} is not a setting; {_known_settings(name)}")
        except PolicyError:
            raise
        except (ValueError, TypeError) as error:
            if name not in SETTING_NAMES:
                raise
            raise policy_error(name, value, str(error)) from None
    return (base or DEFAULT_POLICY).replace(**changes) if changes else base or DEFAULT_POLICY


def _backoff(value: Any) -> Backoff:
    if isinstance(value, Backoff):
        return value
    try:
        return Backoff("exponential", read_duration(value))
    except ValueError:
        raise ValueError('use redrive.constant(2), linear(2) or exponential(2), or a base such as "500ms"') from None


def _jitter(value: Any) -> Jitter:
    if isinstance(value, Jitter):
        return value
    if value in JITTERS:
        return Jitter(value)
    if isinstance(value, str) and (fraction := read_percentage(value)) is not None:
        return Jitter("proportional", fraction)
    if value == "additive":
        raise ValueError('additive jitter needs a maximum: write jitter="250ms"')
    if value == "proportional":
        raise ValueError('proportional jitter needs a maximum: write jitter="10%"')
    try:
        return Jitter("additive", read_duration(value))
    except ValueError:
        raise ValueError(f'use {", ".join(JITTERS)}, a Jitter, or the maximum to add, such as "250ms"') from None
