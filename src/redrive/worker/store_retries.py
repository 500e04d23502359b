"""Call a store, and retry while it is unavailable."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redrive.calls.retrier import Retrier
from redrive.determinism.clock import SYSTEM_CLOCK, use_clock
from redrive.errors import StoreUnavailableError
from redrive.failures.matching import Match
from redrive.policies.backoff import Backoff
from redrive.policies.policy import Policy
from redrive.stores.interface import Store
from redrive.telemetry.stream import hooks_only
from redrive.worker.store_outages import log_outage, log_outage_of

T = TypeVar("T")

# Nothing is lost while the store is away, and the lease says when to stop.
UNTIL_AVAILABLE = Policy(
    attempts=None,
    backoff=Backoff("exponential", 0.05),
    max_wait=1.0,
    deadline=None,
    retry_on=Match(types=(StoreUnavailableError,)),
)


async def retry_until_available(store: Store, verb: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a verb of the store; while the store is unavailable, call it again."""
    try:
        return await verb(*args)
    except StoreUnavailableError as error:
        log_outage(store.address, error)
    retrier = Retrier(UNTIL_AVAILABLE, independent=True, on_event=functools.partial(log_outage_of, store.address))
    # The store comes back in real time, whatever the clock of the flows says.
    with use_clock(SYSTEM_CLOCK), hooks_only():
        return await retrier.acall(verb, *args)
