"""Keyword settings of `retry(...)`, `attempts(...)` and `Retrier(...)`, and the policy they make."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, TypedDict

from redrive.errors import PolicyError
from redrive.failures.classifier import Classifier
from redrive.failures.duration import read_duration
from redrive.failures.matching import Match, as_match
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter, JitterKind
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule, policy_error
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

JITTERS: tuple[JitterKind, ...] = ("none", "full", "equal", "decorrelated")


Duration = float | timedelta | str
"""Seconds, a timedelta, or text such as "30s"."""

Failures = type[BaseException] | str | int | Match | Callable[[Any], bool] | Iterable[Any]
"""Exception classes, names, statuses, predicates, a Match, or several of them."""


class PolicySettings(TypedDict, total=False):
    """What may be written instead of a Policy; durations are seconds, timedeltas or texts such as "30s"."""

    attempts: int | None
    """Attempts in all, the first included; None: no limit."""
    on: Failures
    """The failures to retry: exception classes, names, statuses, predicates; by default the transient ones."""
    never: Failures
    """The failures never to retry."""
    deadline: Duration | None
    """Time for all attempts and waits together; None: no limit."""
    attempt_timeout: Duration | None
    """Time for one attempt."""
    backoff: Backoff | Duration
    """A Backoff, or the base of an exponential one."""
    jitter: Jitter | Duration
    """A Jitter, "none", "full", "equal" or "decorrelated", or the most that additive jitter adds."""
    max_wait: Duration | None
    """The longest wait between two attempts; None: no limit."""
    max_retry_after: Duration | None
    """The longest Retry-After that is obeyed; None: any."""
    floor: Duration
    """What a zero wait is lifted to."""
    timeout_retries: int | None
    """Retries granted to attempts that were cut by their timeout."""
    rules: Iterable[Rule]
    """Asked in order before `on`."""
    timeout_growth: float
    """After the first timeout, attempts get this many times `attempt_timeout`."""
    idempotent: bool | None
    """False: a failure that may have taken effect is not retried."""


class LoopSettings(PolicySettings, total=False):
    """What may be said about a loop over attempts; see Retrier."""

    operation: str | None
    dependency: str | Dependency | None
    classifier: Classifier
    reread: Callable[[], Any] | None
    independent: bool
    on_event: Listener | Iterable[Listener]


class GuardSettings(LoopSettings, total=False):
    """What may be said about a guarded function; see Retrier."""

    fallback: Any
    retry_result: Callable[[Any], bool] | None


DURATIONS = ("deadline", "attempt_timeout", "max_wait", "max_retry_after", "floor")


SETTING_NAMES = tuple(PolicySettings.__annotations__)


def policy_from(settings: PolicySettings, base: Policy | None = None) -> Policy:
    """`base` (the default policy) with these settings; a setting that cannot be meant is refused by its name."""
    if base is not None and not isinstance(base, Policy):
        raise TypeError(
            f"policy: {type(base).__name__} is not a Policy; write Policy(attempts=5), or name the setting it is for"
        )
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        try:
            if name == "on":
                changes["retry_on"] = as_match(value)
            elif name == "never":
                changes["never_on"] = as_match(value)
            elif name == "backoff":
                changes["backoff"] = _backoff(value)
            elif name == "jitter":
                changes["jitter"] = _jitter(value)
            elif name in DURATIONS:
                changes[name] = None if value is None else read_duration(value)
            elif name == "rules":
                if not isinstance(value, Iterable):
                    raise TypeError("use a list of Rule(match=..., retries=...)")
                changes["rules"] = tuple(value)
            elif name in ("attempts", "timeout_retries", "timeout_growth", "idempotent"):
                changes[name] = value
            else:
                raise TypeError(f"{name!r} is not a setting here; of the policy there are {', '.join(SETTING_NAMES)}")
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
    if value == "additive":
        raise ValueError('say how much additive jitter adds at most: jitter="250ms"')
    try:
        return Jitter("additive", read_duration(value))
    except ValueError:
        raise ValueError(f'use {", ".join(JITTERS)}, a Jitter, or the most to add, such as "250ms"') from None
