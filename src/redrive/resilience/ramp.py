"""The ramp of a recovering dependency: how many calls are admitted, and how fast, after a successful probe.

Pure functions over plain data, times as arguments. The rate begins low and grows with each success, so that it doubles
in less than a second while the dependency keeps up. The first failure cuts it: from then on it climbs back to where it
was cut within `CLIMB` seconds, fast at first (as TCP's CUBIC does with its window), and tries more only after that. A
limit of concurrent calls does the same for a dependency that answers slowly instead of refusing.
"""

import math

import msgspec

FIRST_RATE = 5.0
"""Calls per second at the start."""
LOWEST_RATE = 1.0
FIRST_LIMIT = 4.0
"""Concurrent calls at the start."""
CUT = 0.85
"""The factor by which the first failure after a success cuts the rate."""
DEEPER_CUT = 0.5
"""The factor for each further failure, until a call succeeds."""
CLIMB = 5.0
"""Seconds in which a rate that was cut climbs back."""
BEYOND = 0.3
"""What each success adds to the rate, at most, beyond the old ceiling: the rate doubles in about two seconds."""
BURST = 0.1
"""Seconds of unused rate that may be caught up on: timers fire late."""
QUIET = 3.0
"""Seconds without a failure, and without a call held back, after which the ramp is over."""
DOWN = 2.0
"""Seconds without a success after which a row of failures means that the dependency is down again."""
SLOW, SLACK = 2.0, 0.5
"""A call that takes more than SLOW times as long as the quickest one plus SLACK seconds was queued by the dependency.
SLACK allows for a busy process, in which calls seem to take longer."""
SLOW_LIMIT = 10.0
"""Slow calls do not lower the limit below this."""


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a ramp at one moment."""

    rate: float = FIRST_RATE
    """Calls per second."""
    limit: float = FIRST_LIMIT
    """Concurrent calls."""
    running: int = 0
    """Calls that were admitted and have not ended."""
    next_at: float
    """When the rate allows the next call."""
    ceiling: float | None = None
    """The rate at which it was last cut; None before the first cut."""
    limit_ceiling: float | None = None
    cut_at: float
    """When rate and limit were last cut, or when the ramp began."""
    failures: int = 0
    """Failures since the last success."""
    succeeded_at: float
    held_back_at: float
    """When a call was last held back, or until when one is."""
    reported_at: float
    """When a call last began or ended."""
    quickest: float | None = None
    """Seconds that the quickest call took."""


def begin(now: float) -> Ramp:
    """Return the ramp after a successful probe."""
    return Ramp(
        next_at=now - 2 / FIRST_RATE,
        cut_at=now,
        succeeded_at=now,
        held_back_at=now,
        reported_at=now,
    )


def next_turn(ramp: Ramp, lost_after: float) -> float:
    """Return when the next call may begin, at the latest; at the limit, a call that ends may let it begin earlier.

    Calls that have not ended `lost_after` seconds after the last one began or ended no longer count.
    """
    if ramp.running >= int(ramp.limit):
        return max(ramp.next_at, ramp.reported_at + lost_after)
    return ramp.next_at


def admit(ramp: Ramp, now: float, lost_after: float) -> Ramp | None:
    """Return the ramp with one more call running; None when it must wait."""
    if now < next_turn(ramp, lost_after):
        return None
    running = 0 if ramp.running >= int(ramp.limit) else ramp.running
    start = max(ramp.next_at, now - max(BURST, 2 / ramp.rate))
    return msgspec.structs.replace(ramp, running=running + 1, next_at=start + 1 / ramp.rate, reported_at=now)


def hold_back(ramp: Ramp, now: float) -> Ramp:
    """Note that a call was held back until now, or will be: the ramp is not over before that."""
    return ramp if ramp.held_back_at >= now else msgspec.structs.replace(ramp, held_back_at=now)


def seconds_for(ramp: Ramp, calls: float) -> float:
    """Estimate how long that many calls take: before the first failure the rate grows with each of them."""
    return calls / ramp.rate if ramp.ceiling is not None else math.log1p(calls / ramp.rate)


def succeed(ramp: Ramp, began: float, now: float) -> Ramp:
    """Note the success of a call that began at `began`: rate and limit grow, unless the call was queued."""
    took = now - began
    quickest = took if ramp.quickest is None or took < ramp.quickest else ramp.quickest
    rate, limit = ramp.rate, ramp.limit
    tolerated = SLOW * quickest + SLACK
    if took > tolerated:
        limit = max(min(limit, SLOW_LIMIT), limit - 0.1 * limit * (1 - tolerated / took))
    else:
        rate = _grown(ramp, now)
        if 2 * ramp.running >= limit:
            # A limit that is not used says nothing about what the dependency can handle.
            limit += 1 if ramp.limit_ceiling is None or limit < CUT * ramp.limit_ceiling else 1 / limit
    return msgspec.structs.replace(
        ramp,
        rate=rate,
        limit=limit,
        running=max(0, ramp.running - 1),
        failures=0,
        succeeded_at=now,
        reported_at=now,
        quickest=quickest,
    )


def fail(ramp: Ramp, began: float, now: float) -> Ramp:
    """Note the failure of a call that began at `began`: rate and limit are cut, unless it began before the last cut."""
    failures, running = ramp.failures + 1, max(0, ramp.running - 1)
    if began < ramp.cut_at:
        # It began at the old rate, for which there was a cut already.
        return msgspec.structs.replace(ramp, failures=failures, running=running, reported_at=now)
    if failures > 1:
        rate = max(LOWEST_RATE, ramp.rate * DEEPER_CUT)
        return msgspec.structs.replace(
            ramp,
            rate=rate,
            limit=max(1.0, ramp.limit * DEEPER_CUT),
            running=running,
            next_at=max(ramp.next_at, now + 1 / rate),
            cut_at=now,
            failures=failures,
            reported_at=now,
        )
    # A failure below the last ceiling means that the capacity has dropped: find the new one sooner.
    is_lower = ramp.ceiling is not None and ramp.rate < ramp.ceiling
    return msgspec.structs.replace(
        ramp,
        rate=max(LOWEST_RATE, ramp.rate * CUT),
        limit=max(1.0, ramp.limit * CUT),
        running=running,
        ceiling=max(LOWEST_RATE, ramp.rate * (1 + CUT) / 2 if is_lower else ramp.rate),
        limit_ceiling=ramp.limit,
        cut_at=now,
        failures=failures,
        reported_at=now,
    )


def forget(ramp: Ramp, now: float) -> Ramp:
    """Note the end of a call that says nothing about the dependency."""
    return msgspec.structs.replace(ramp, running=max(0, ramp.running - 1), reported_at=now)


def is_over(ramp: Ramp, now: float) -> bool:
    """Whether the ramp has ended: nothing failed and nothing was held back for QUIET seconds."""
    return now - max(ramp.held_back_at, ramp.cut_at) >= QUIET and not ramp.failures


def is_down(ramp: Ramp, failures: int, now: float) -> bool:
    """Whether the dependency is down again: that many failures in a row, and no success for a while."""
    return ramp.failures >= failures and now - ramp.succeeded_at >= DOWN


def _grown(ramp: Ramp, now: float) -> float:
    """The rate after one more success."""
    if ramp.ceiling is None:
        return ramp.rate + 1
    left = CLIMB - (now - ramp.cut_at)
    if left <= 0:
        # Carefully at first: at the ceiling the dependency failed the last time.
        return max(ramp.rate, ramp.ceiling) + BEYOND * min(1.0, -left / CLIMB)
    return max(ramp.rate, ramp.ceiling * (1 - (1 - CUT) * (left / CLIMB) ** 3))
