"""`redrive.attempts()`: guards a block instead of a function.

for attempt in redrive.attempts(attempts=5):
    with attempt:
        ...
"""

from typing import Unpack

from redrive.calls.attempt_loop import Attempts
from redrive.calls.retrier import Retrier
from redrive.calls.settings import LoopSettings
from redrive.policies.policy import Policy


def attempts(policy: Policy | None = None, /, **settings: Unpack[LoopSettings]) -> Attempts:
    """Return a loop over attempts, for `for` or `async for`; the body of `with attempt:` is the attempt.

    When the body succeeds, the loop ends. When it fails, the loop waits and repeats the body, or the error is raised
    from the `with`. In `async for` the body is cancelled at `attempt_timeout` and at the deadline. Nothing can cancel
    the body of a plain `for`, so `attempt_timeout` is refused there.
    """
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"attempts takes a Policy, not {type(policy).__name__}; for a Retrier, use retrier.attempts()")
    return Retrier(policy, **settings).attempts()
