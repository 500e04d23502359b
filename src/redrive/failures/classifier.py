"""Classifies exceptions and HTTP responses as failures: transient, permanent or unknown, and why."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NoReturn, cast, get_args

from msgspec import structs

from redrive.errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    Permanent,
    RelayedError,
    ResultRejectedError,
    RetryAfter,
)
from redrive.failures.causes import causes_of
from redrive.failures.duration import read_duration
from redrive.failures.failure import Category, Failure, JudgedError, Kind, Verdict
from redrive.failures.groups import failure_of_group, leaves
from redrive.failures.headers import retry_after_header, should_retry_header
from redrive.failures.http_status import CONFLICT, status_verdict
from redrive.failures.known_errors.entries import attribute
from redrive.failures.known_errors.lookup import known_verdict
from redrive.failures.matching import Match, as_match, lineage, qualified_name
from redrive.failures.redaction import redact
from redrive.failures.retry_after import parse_retry_after

Answer = Category | Callable[[BaseException], Category | Verdict | None]
"""A rule's verdict on the errors it matches, or a function that gives one; None from it means to ask the next rule."""

_CATEGORIES = get_args(Category)
_NO_STATUSES: Mapping[int, Category] = MappingProxyType({})
_CUTS = (AttemptTimeoutError, DeadlineExceededError)
_TIMED_OUT = "the attempt was cut by its timeout; the next may be faster"


class Classifier:
    """Classifies failures as transient, permanent or unknown. Immutable, so it can be shared between threads.

    `rules` are checked first, in order: pairs of what they match (anything `as_match` reads) and their verdict.
    `statuses` overrides the table of HTTP statuses. `conflict_is_lock` declares 409 an optimistic-lock conflict: the
    state is read again before the retry.
    """

    __slots__ = ("_conflict_is_lock", "_rules", "_statuses")

    _rules: tuple[tuple[Match, Answer], ...]
    _statuses: Mapping[int, Category]
    _conflict_is_lock: bool

    def __init__(
        self,
        rules: Iterable[tuple[Any, Answer]] = (),
        statuses: Mapping[int, Category] = _NO_STATUSES,
        conflict_is_lock: bool = False,
    ) -> None:
        if not isinstance(statuses, Mapping):
            raise TypeError(f'statuses: {statuses!r} is not allowed; use a mapping such as {{404: "transient"}}')
        keep = object.__setattr__
        keep(self, "_rules", tuple(_checked_rule(index, rule) for index, rule in enumerate(rules)))
        keep(self, "_statuses", MappingProxyType({_checked_status(s): _checked(c) for s, c in statuses.items()}))
        keep(self, "_conflict_is_lock", bool(conflict_is_lock))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a Classifier is immutable; create another one")

    def __repr__(self) -> str:
        return (
            f"Classifier({len(self._rules)} rules, statuses={dict(self._statuses)}, "
            f"conflict_is_lock={self._conflict_is_lock})"
        )

    def with_lock_conflicts(self) -> "Classifier":
        """Return this classifier with 409 declared an optimistic-lock conflict."""
        return Classifier(self._rules, self._statuses, conflict_is_lock=True)

    def failure_of(self, error: BaseException, wall_now: float, timed_out: bool = False) -> Failure:
        """Classify a raised exception. `timed_out`: redrive itself cut the attempt."""
        return self._judge(error, wall_now, timed_out)

    def _judge(
        self, error: BaseException, wall_now: float, timed_out: bool = False, ask_causes: bool = True
    ) -> Failure:
        kind: Kind = "timeout" if timed_out or isinstance(error, _CUTS) else "exception"
        if not isinstance(error, Exception) and not timed_out:
            reason = f"{type(error).__name__} ends the program or the task; it is never retried"
            return _failure(error, kind, Verdict(category="permanent", reason=reason), marked_permanent=True)
        if isinstance(error, Permanent):
            verdict = Verdict(category="permanent", reason="the failing code raised Permanent: no retry will help")
            return _failure(error, kind, verdict, marked_permanent=True)
        if isinstance(error, RetryAfter):
            verdict = Verdict(category="transient", reason="the failing code raised RetryAfter: it asks for a retry")
            return structs.replace(_failure(error, kind, verdict, error.seconds), asks_for_retry=True)
        if isinstance(error, JudgedError) and (known := error.judged()) is not None:
            return known
        if isinstance(error, RelayedError):
            return _relayed(error, self._judge(error.stands_for, wall_now, ask_causes=ask_causes))
        failure = self._before_rules(error, wall_now, kind, ask_causes)
        return self._after_rules(failure, error, wall_now) if self._rules else failure

    def failure_of_status(self, status: int, headers: Mapping[str, str] | None, wall_now: float) -> Failure:
        """Classify an HTTP response. Rules that are functions of an exception do not apply."""
        verdict = status_verdict(
            status,
            overrides=self._statuses,
            conflict_is_lock=self._conflict_is_lock,
            retry_after=retry_after_header(headers),
            should_retry=should_retry_header(headers),
        )
        seconds, note = _read_header(verdict.retry_after, wall_now)
        failure = Failure(
            category=verdict.category,
            reason=verdict.reason,
            kind="result",
            type=f"HTTP {status}",
            message=verdict.reason.partition(":")[0],
            status=status,
            retry_after=seconds,
            retry_after_note=note,
            not_sent=verdict.not_sent,
        )
        return self._after_rules(failure, None, wall_now) if self._rules else failure

    def failure_of_result(self, description: str) -> Failure:
        """Classify a rejected result."""
        shown = redact(description)
        return Failure(
            category="transient",
            reason="the result was rejected; the next one may be accepted",
            kind="result",
            type="ResultRejectedError",
            lineage=lineage(ResultRejectedError),
            message=shown,
        )

    def _before_rules(self, error: BaseException, wall_now: float, kind: Kind, ask_causes: bool) -> Failure:
        if isinstance(error, BaseExceptionGroup):
            group = _failure(error, kind, Verdict(category="unknown", reason="an empty group"))
            return failure_of_group(
                group, [self._judge(leaf, wall_now, ask_causes=ask_causes) for leaf in leaves(error)]
            )
        if kind == "timeout":
            verdict: Verdict | None = Verdict(category="transient", reason=_TIMED_OUT)
        else:
            verdict = known_verdict(error)
        if verdict is None:
            return self._by_causes(error, wall_now, kind, ask_causes)
        if verdict.status is not None:
            verdict = self._by_declared_status(verdict, verdict.status)
        seconds, note = _asked_wait(error, verdict, wall_now)
        return _failure(error, kind, verdict, seconds, note)

    def _by_causes(self, error: BaseException, wall_now: float, kind: Kind, ask_causes: bool) -> Failure:
        """Classify an error that says nothing by itself: by the nearest cause that is known, or as unknown."""
        verdict = _not_known(error)
        failure = _failure(error, kind, verdict, *_asked_wait(error, verdict, wall_now))
        for cause in causes_of(error) if ask_causes else ():
            found = self._judge(cause.error, wall_now, ask_causes=False)
            if cause.may_decide(found):
                return _decided_by(failure, found)
            if known_verdict(cause.error) is not None:
                # What is known to be ambiguous stays so: the cause of a cause cannot settle it.
                break
        return failure

    def _by_declared_status(self, verdict: Verdict, status: int) -> Verdict:
        if status not in self._statuses and not (status == CONFLICT and self._conflict_is_lock):
            return verdict
        return status_verdict(
            status,
            overrides=self._statuses,
            conflict_is_lock=self._conflict_is_lock,
            retry_after=verdict.retry_after,
        )

    def _after_rules(self, failure: Failure, error: BaseException | None, wall_now: float) -> Failure:
        """Apply the first rule that gives a verdict; without one, return the failure unchanged."""
        broken = ""
        for index, (match, answer) in enumerate(self._rules):
            try:
                matched = match.matched_by(failure)
                if matched is None:
                    continue
                said: Category | Verdict | None
                if not callable(answer):
                    said = answer
                else:
                    if error is None:
                        continue
                    said = answer(error)
                    if said is None:
                        continue
            except Exception as trouble:  # noqa: BLE001 - a broken rule must not hide the failure
                broken += f"; rules[{index}] of the classifier raised {type(trouble).__name__} and was skipped"
                continue
            if isinstance(said, Verdict):
                return _as_ruled(failure, f"rules[{index}] ({matched}): {said.reason}{broken}", said, wall_now)
            if said in _CATEGORIES:
                reason = f"rules[{index}] of the classifier declares {matched} {said}{broken}"
                return structs.replace(failure, category=said, reason=reason)
            broken += f"; rules[{index}] of the classifier returned {redact(repr(said), 40)} and was skipped"
        return structs.replace(failure, reason=failure.reason + broken) if broken else failure


def _decided_by(failure: Failure, cause: Failure) -> Failure:
    """The failure of an error that says nothing by itself, with what its cause says."""
    asked = cause if failure.retry_after is None else failure
    return structs.replace(
        failure,
        category=cause.category,
        reason=f"{failure.type} is not known by itself; it was caused by {cause.type}: {cause.reason}",
        status=cause.status,
        retry_after=asked.retry_after,
        retry_after_note=failure.retry_after_note or asked.retry_after_note,
        not_sent=cause.not_sent,
        unsafe_to_repeat=cause.unsafe_to_repeat,
        poison=cause.poison,
    )


def _relayed(error: RelayedError, failure: Failure) -> Failure:
    """The other error's failure, under both errors' names: rules may name either."""
    asks = failure.asks_for_retry and not error.retries_were_made
    names = (*lineage(type(error)), *failure.lineage)
    return structs.replace(failure, lineage=names, error=error, asks_for_retry=asks)


def _as_ruled(failure: Failure, reason: str, verdict: Verdict, wall_now: float) -> Failure:
    seconds, note = failure.retry_after, failure.retry_after_note
    if verdict.retry_after is not None:
        seconds, note = _read_header(verdict.retry_after, wall_now)
    return structs.replace(
        failure,
        category=verdict.category,
        reason=reason,
        status=failure.status if verdict.status is None else verdict.status,
        retry_after=seconds,
        retry_after_note=note,
        not_sent=verdict.not_sent,
    )


def _failure(
    error: BaseException,
    kind: Kind,
    verdict: Verdict,
    retry_after: float | None = None,
    retry_after_note: str = "",
    marked_permanent: bool = False,
) -> Failure:
    names = lineage(type(error))
    return Failure(
        category=verdict.category,
        reason=verdict.reason,
        kind=kind,
        type=names[0].removeprefix("builtins."),
        lineage=names,
        message=_message(error),
        status=verdict.status,
        retry_after=retry_after,
        retry_after_note=retry_after_note,
        not_sent=verdict.not_sent,
        marked_permanent=marked_permanent,
        error=error,
    )


def _message(error: BaseException) -> str:
    try:
        return redact(str(error))
    except Exception:  # noqa: BLE001 - an exception whose __str__ fails still happened
        return f"<{type(error).__name__} whose text cannot be read>"


def _not_known(error: BaseException) -> Verdict:
    name = type(error).__name__
    return Verdict(
        category="unknown",
        reason=f"{qualified_name(type(error)).removeprefix('builtins.')} is not a known error: "
        f'declare it with retry_on=(TRANSIENT, {name}), or with a classifier rule ({name}, "transient")',
    )


def _asked_wait(error: BaseException, verdict: Verdict, wall_now: float) -> tuple[float | None, str]:
    """Return the wait that was asked for, by header or by the exception's `retry_after`, and a note about it."""
    if verdict.retry_after is not None:
        return _read_header(verdict.retry_after, wall_now)
    asked = attribute(error, "retry_after")
    if asked is None or callable(asked):
        return None, ""
    if isinstance(asked, str):
        return _read_header(asked, wall_now)
    try:
        return read_duration(asked), ""
    except ValueError:
        return None, f"the exception's retry_after is not a duration and is ignored: {redact(repr(asked), 40)}"


def _read_header(value: str | None, wall_now: float) -> tuple[float | None, str]:
    if value is None:
        return None, ""
    reading = parse_retry_after(value, wall_now)
    return reading.seconds, reading.note


def _checked_rule(index: int, rule: Any) -> tuple[Match, Answer]:
    try:
        what, answer = rule
    except (TypeError, ValueError):
        raise TypeError(f"rules[{index}]: {rule!r} is not a pair; write (what it matches, its category)") from None
    return as_match(what), cast("Answer", answer) if callable(answer) else _checked(answer)


def _checked(category: Any) -> Category:
    for known in _CATEGORIES:
        if category == known:
            return known  # type: ignore[no-any-return]  # get_args gives up the Literal's type
    raise ValueError(f"{category!r} is not a category: use {', '.join(_CATEGORIES)}")


def _checked_status(status: Any) -> int:
    if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
        return int(status)
    raise ValueError(f"{status!r} is not an HTTP status: use 100 to 599")


DEFAULT_CLASSIFIER: Final = Classifier()
