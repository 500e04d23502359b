"""Keyword settings of `retry(...)` and `attempts(...)`, as a policy and as a Retrier."""

from collections.abc import Callable, Iterable
from typing import Any, TypedDict

from redrive.calls.retrier import Retrier
from redrive.failures.classifier import Classifier
from redrive.failures.duration import read_duration
from redrive.failures.matching import as_match
from redrive.observability.stream import Listener
from redrive.resilience.dependencies import Dependency
from redrive.retry.backoff import Backoff
from redrive.retry.jitter import Jitter, JitterKind
from redrive.retry.policy import DEFAULT_POLICY, Policy, PolicyError, Rule

JITTERS: tuple[JitterKind, ...] = ("none", "full", "equal", "decorrelated")


class PolicySettings(TypedDict, total=False):
    """What may be written instead of a Policy; durations are seconds, timedeltas or texts such as "30s"."""

    attempts: int | None
    """Attempts in all, the first included; None: no limit."""
    on: Any
    """The failures to retry: exception classes, names, statuses, predicates; by default the transient ones."""
    never: Any
    """The failures never to retry."""
    deadline: Any
    """Time for all attempts and waits together; None: no limit."""
    attempt_timeout: Any
    """Time for one attempt."""
    backoff: Any
    """A Backoff, or the base of an exponential one."""
    jitter: Any
    """A Jitter, "none", "full", "equal" or "decorrelated", or the most that additive jitter adds."""
    max_wait: Any
    """The longest wait between two attempts; None: no limit."""
    max_retry_after: Any
    """The longest Retry-After that is obeyed; None: any."""
    floor: Any
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


ABOUT_CALLS = GuardSettings.__annotations__.keys() - PolicySettings.__annotations__.keys()


def policy_from(settings: PolicySettings, base: Policy | None = None) -> Policy:
    """`base` (the default policy) with these settings; a setting that cannot be meant is refused by its name."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        try:
            if name == "on":
                changes["retry_on"] = as_match(value)
            elif name == "never":
                changes["never_on"] = as_match(value)
            elif name == "backoff":
                changes["backoff"] = (
                    value if isinstance(value, Backoff) else Backoff("exponential", read_duration(value))
                )
            elif name == "jitter":
                changes["jitter"] = _jitter(value)
            elif name in DURATIONS:
                changes[name] = None if value is None else read_duration(value)
            elif name == "rules":
                changes["rules"] = tuple(value)  # type: ignore[arg-type]  # checked by Policy
            elif name in ("attempts", "timeout_retries", "timeout_growth", "idempotent"):
                changes[name] = value
            else:
                allowed = ", ".join(GuardSettings.__annotations__)
                raise TypeError(f"{name!r} is not a retry setting; use one of {allowed}")
        except PolicyError:
            raise
        except ValueError as error:
            raise PolicyError(name, value, str(error)) from None
    return (base or DEFAULT_POLICY).replace(**changes) if changes else base or DEFAULT_POLICY


def retrier_from(settings: LoopSettings | GuardSettings, base: Policy | None = None) -> Retrier:
    """A Retrier with these settings, its policy among them."""
    about_calls = {name: value for name, value in settings.items() if name in ABOUT_CALLS}
    about_policy = {name: value for name, value in settings.items() if name not in ABOUT_CALLS}
    policy = policy_from(about_policy, base)  # type: ignore[arg-type]  # unknown names are refused there
    return Retrier(policy, **about_calls)  # type: ignore[arg-type]  # as GuardSettings declares them


def _jitter(value: Any) -> Jitter:
    if isinstance(value, Jitter):
        return value
    if value in JITTERS:
        return Jitter(value)
    if value == "additive":
        raise ValueError('say how much additive jitter adds at most: jitter="250ms"')
    return Jitter("additive", read_duration(value))
