"""The one place where retries are decided. Pure: time and randomness are arguments."""

import msgspec
from msgspec import structs

from redrive.determinism.dice import Dice
from redrive.failures.failure import Failure
from redrive.failures.matching import ANYTHING
from redrive.policies.backoff import LONGEST_WAIT, Backoff
from redrive.policies.decision import CLEAR, Because, Conditions, Decision, GiveUp, GiveUpKind, RetryAt
from redrive.policies.history import LOST, LOST_TO_BLAME, History
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Policy, Rule

# Shorter waits count as zero and are lifted to the floor.
SHORTEST_WAIT = 0.001
# Work that took this many workers, or processes of its own, down is not attempted again.
MOST_LOST = 3


_Refusal = tuple[GiveUpKind, str]

_IMMEDIATELY = Rule(match=ANYTHING, backoff=Backoff("constant", 0.0), jitter=Jitter("none"))
# Work lost together must not restart together: the item that kills its worker would take the same others down with it,
# until they count as poison pills too.
_SPREAD = Rule(match=ANYTHING, backoff=Backoff("constant", 5.0), jitter=Jitter("full"))


class _Answer(msgspec.Struct, frozen=True, gc=False):
    """The part of the policy that applies to a failure, with its limits and waits."""

    name: str
    matched: str
    retries: int | None
    backoff: Backoff
    jitter: Jitter
    max_wait: float | None


def _answer(policy: Policy, name: str, matched: str, rule: Rule) -> _Answer:
    """Fill in from the policy what the rule does not set."""
    return _Answer(
        name,
        matched,
        rule.retries,
        rule.backoff or policy.backoff,
        rule.jitter or policy.jitter,
        policy.max_wait if rule.max_wait is None else rule.max_wait,
    )


def decide(
    policy: Policy,
    history: History,
    failure: Failure,
    now: float,
    dice: Dice,
    conditions: Conditions = CLEAR,
) -> Decision:
    """Decide about one failed attempt: when to retry it, or why to give up.

    `history` includes the attempt that failed. `now`, `history.started_at` and the returned time are on the same
    clock; which one does not matter. `dice` supplies the randomness for jitter. `conditions` holds what circuit and
    retry budget say; by default nothing prevents a retry.
    """
    if failure.poison:
        return _give_up(policy, history, failure, now, conditions, None, "poison", failure.reason)
    if failure.marked_permanent:
        return _give_up(policy, history, failure, now, conditions, None, "permanent", "the code that failed said so")
    if (matched := policy.never_on.matched_by(failure)) is not None:
        return _give_up(policy, history, failure, now, conditions, None, "permanent", f"never_on names {matched}")
    answer = _find_answer(policy, failure, history)
    if answer is None:
        kind: GiveUpKind = "unmatched" if failure.category == "transient" else failure.category
        return _give_up(policy, history, failure, now, conditions, None, kind, "nothing in the policy retries it")

    granted = history.granted_by(answer.name)
    n = granted.retries if granted else 0
    refused = _refused(policy, history, failure, conditions, answer, n)
    if refused is not None:
        return _give_up(policy, history, failure, now, conditions, answer, *refused)

    asked = failure.retry_after
    cap = LONGEST_WAIT if answer.max_wait is None else answer.max_wait
    base = min(answer.backoff.base, cap)
    raw = 0.0 if asked is not None else answer.backoff.raw(n)
    capped = min(raw, cap)
    floor = min(policy.floor, cap)
    # Jitter may draw a zero; a zero that the settings or the server ask for would be a tight loop.
    lifted = asked is None and capped < SHORTEST_WAIT and policy.floor > capped
    if lifted:
        capped = base = floor
    if asked is not None and asked > 0:
        low = high = wait = min(asked, LONGEST_WAIT)
    else:
        low, high = answer.jitter.between(capped, base, granted.last_wait if granted else None, cap)
        wait = low if high <= low else low + (high - low) * dice()
    if asked is not None and high < SHORTEST_WAIT and floor > wait:
        lifted, low, high, wait = True, floor, floor, floor

    left = _deadline_left(policy, history, now)
    refused = _refused_after(policy, conditions, now, wait, left)
    if refused is not None:
        return _give_up(policy, history, failure, now, conditions, answer, *refused)
    because = Because(
        rule=answer.name,
        matched=answer.matched,
        category=failure.category,
        reason=failure.reason,
        failure_kind=failure.kind,
        attempt=history.attempts,
        attempts=policy.attempts,
        retry_number=n,
        raw=raw,
        cap=answer.max_wait,
        lifted_to_floor=lifted,
        jitter=answer.jitter.kind,
        low=low,
        high=high,
        wait=wait,
    )
    return RetryAt(now + wait, _with_limits(because, answer, failure, left, conditions))


def _refused(
    policy: Policy, history: History, failure: Failure, conditions: Conditions, answer: _Answer, n: int
) -> _Refusal | None:
    """Return why no retry is possible at any time, or None. `n` retries were granted before."""
    if conditions.handed_on:
        return "output_handed_on", f"{_chunks(conditions.handed_on)} of output had been handed on; a retry repeats them"
    if policy.idempotent is False and not failure.not_sent and not failure.asks_for_retry:
        return "not_idempotent", "it may have taken effect, and the work is declared not idempotent"
    if failure.unsafe_to_repeat and not policy.idempotent:
        return "not_idempotent", "it may have taken effect in a call inside that is not idempotent"
    if failure.blamed and n + 1 >= MOST_LOST:
        return "poison", f"{MOST_LOST} attempts took their worker or their process down"
    if not conditions.wanted:
        return "abandoned", "its outcome is no longer needed"
    if conditions.owned_elsewhere:
        return "nested", "an enclosing guarded call owns the retries"
    if not conditions.replayable:
        return "not_replayable", "the input of the work was consumed and cannot be sent again"
    # An attempt that was lost through no fault of its own does not count. Work of a single attempt is not repeated.
    counts = answer.name != LOST or policy.attempts == 1
    if counts and policy.attempts is not None and history.attempts >= policy.attempts:
        return "exhausted", f"attempt {history.attempts} of {policy.attempts} failed"
    if failure.kind == "timeout" and policy.timeout_retries is not None and history.timeouts >= policy.timeout_retries:
        return "exhausted", f"timeout_retries grants {_times(policy.timeout_retries)}"
    if answer.retries is not None and n >= answer.retries:
        rule = f"the rule for {answer.matched}" if answer.matched else answer.name
        return "exhausted", f"{rule} grants {_times(answer.retries)}"
    asked = failure.retry_after
    if asked is not None and policy.max_retry_after is not None and asked > policy.max_retry_after:
        return "retry_after", f"asked to wait {asked:g} s, above the {policy.max_retry_after:g} s accepted"
    return None


def _refused_after(
    policy: Policy, conditions: Conditions, now: float, wait: float, left: float | None
) -> _Refusal | None:
    """Return why no retry is possible after this wait, or None."""
    if conditions.circuit == "open" and (conditions.circuit_open_until or 0.0) > now + wait:
        return "circuit_open", "the circuit of the dependency is open"
    if conditions.budget_spent:
        return "budget", "the dependency's retry budget is spent"
    if left is not None and left <= 0:
        return "deadline", f"the {policy.deadline:g} s for the whole call are over"
    if left is not None and wait >= left:
        return "deadline", f"the next attempt would begin in {wait:.3g} s, with {left:.3g} s left"
    return None


def is_retried(policy: Policy, failure: Failure) -> bool:
    """Whether the policy retries such a failure, regardless of limits and conditions."""
    if failure.marked_permanent or policy.never_on.matched_by(failure) is not None:
        return False
    return _find_answer(policy, failure) is not None


def _find_answer(policy: Policy, failure: Failure, history: History | None = None) -> _Answer | None:
    if failure.kind == "lost":
        # The worker failed, not the work: retry immediately, whatever the policy.
        name = LOST_TO_BLAME if failure.blamed else LOST
        again = history is not None and any(history.granted_by(one) for one in (LOST, LOST_TO_BLAME))
        return _answer(policy, name, "worker lost", _SPREAD if again else _IMMEDIATELY)
    for index, rule in enumerate(policy.rules):
        if (matched := rule.match.matched_by(failure)) is not None:
            return _answer(policy, f"rules[{index}]", matched, rule)
    if failure.asks_for_retry and not policy.retry_on:
        # RetryAfter is retried whatever is named; in a policy of rules alone, the last rule stands in for `retry_on`.
        for index in reversed(range(len(policy.rules))):
            if policy.rules[index].retries != 0:
                return _answer(policy, f"rules[{index}]", "RetryAfter", policy.rules[index])
    said: str | None
    if (failure.kind == "timeout" or failure.asks_for_retry) and policy.retry_on:
        said = "attempt timeout" if failure.kind == "timeout" else "RetryAfter"
    else:
        said = policy.retry_on.matched_by(failure)
    return _Answer("retry_on", said, None, policy.backoff, policy.jitter, policy.max_wait) if said is not None else None


def _give_up(
    policy: Policy,
    history: History,
    failure: Failure,
    now: float,
    conditions: Conditions,
    answer: _Answer | None,
    kind: GiveUpKind,
    detail: str,
) -> GiveUp:
    granted = history.granted_by(answer.name) if answer else None
    because = Because(
        rule=answer.name if answer else "never_on" if detail.startswith("never_on") else "none",
        matched=answer.matched if answer else "",
        category=failure.category,
        reason=failure.reason,
        failure_kind=failure.kind,
        attempt=history.attempts,
        attempts=policy.attempts,
        retry_number=granted.retries if granted else 0,
        detail=detail,
    )
    return GiveUp(kind, _with_limits(because, answer, failure, _deadline_left(policy, history, now), conditions))


def _with_limits(
    because: Because, answer: _Answer | None, failure: Failure, left: float | None, conditions: Conditions
) -> Because:
    """Add what else bounds the retries, if anything does: building all fields at once would be slow."""
    retries = answer.retries if answer else None
    asked_for_nothing = failure.retry_after is None and not failure.retry_after_note
    if retries is None and left is None and asked_for_nothing and conditions is CLEAR:
        return because
    return structs.replace(
        because,
        retries=retries,
        retry_after=failure.retry_after,
        retry_after_note=failure.retry_after_note,
        deadline_left=left,
        budget_left=conditions.budget_left,
        circuit=conditions.circuit,
    )


def _deadline_left(policy: Policy, history: History, now: float) -> float | None:
    return None if policy.deadline is None else history.started_at + policy.deadline - now


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


def _times(retries: int) -> str:
    return "no retry" if retries == 0 else "1 retry" if retries == 1 else f"{retries} retries"
