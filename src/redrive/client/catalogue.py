"""The catalogue: HTTP steps that are registered in the store, from which flows are planned by their goals."""

from collections.abc import Mapping
from typing import Any

import msgspec

from redrive.client.flow_access import FlowAccess
from redrive.failures.redaction import redact
from redrive.flows.graphs.notation.step_reading import read_step
from redrive.flows.graphs.spec import StepSpec
from redrive.stores.registry_rows import StepRow

LARGEST_STEP = 64 * 1024


class BrokenStep(msgspec.Struct, frozen=True):
    """A step whose row in the store cannot be read."""

    name: str
    broken: str
    """What is wrong, and what to do."""


class Catalogue:
    """Registers steps and lists them."""

    def __init__(self, flows: FlowAccess) -> None:
        self._flows = flows

    async def register(self, step: Mapping[str, Any] | StepSpec) -> bool:
        """Add the step, or replace the one of the same name; True when there was none."""
        spec = step if isinstance(step, StepSpec) else read_step(step)
        body = msgspec.json.encode(spec).decode()
        if len(body) > LARGEST_STEP:
            raise ValueError(f"step {spec.name} takes {len(body):,} bytes; at most {LARGEST_STEP:,} are allowed")
        row = StepRow(name=spec.name, body=body, updated_at=self._flows.now())
        return await self._flows.store.put_step(row)

    async def entries(self) -> list[StepSpec | BrokenStep]:
        """Return all steps, by name; one that cannot be read does not hide the others."""
        return [_read(row) for row in await self._flows.store.list_steps()]


def _read(row: StepRow) -> StepSpec | BrokenStep:
    try:
        return msgspec.json.decode(row.body, type=StepSpec)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return BrokenStep(row.name, redact(f"its row cannot be read: {error}; register it again or drop it", 300))
