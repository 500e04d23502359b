"""Open and close the circuits of dependencies by hand, in the whole fleet."""

import re

from redrive.client.app import App
from redrive.failures.redaction import redact
from redrive.flows.messages import check_by_and_why
from redrive.flows.values.json_form import is_storable
from redrive.stores.queue_names import CONTROL_CHARACTERS
from redrive.stores.worker_reports import DependencyOrder, Order

LONGEST_NAME = 500
_CONTROL = re.compile(f"[{CONTROL_CHARACTERS}]")


async def order_dependency(app: App, name: str, order: Order, *, by: str, why: str) -> DependencyOrder:
    """Keep the order, which workers follow within seconds; ValueError for what cannot be a dependency's name."""
    check_by_and_why(by, why)
    if not 0 < len(name) <= LONGEST_NAME or not is_storable(name) or _CONTROL.search(name):
        raise ValueError(
            f"{name[:50]!r} cannot name a dependency; use 1 to {LONGEST_NAME} characters, without control characters"
        )
    # As the workers name it.
    kept = DependencyOrder(name=redact(name), order=order, by=by, why=why, at=app.now())
    await app.store.set_dependency_order(kept)
    return kept
