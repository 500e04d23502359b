"""The verbs of the memory store about flow control."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from redrive.stores.flow_control import QueueUse
from redrive.stores.memory.data import MemoryData
from redrive.stores.records import FINISHED


class MemoryFlowControl:
    _data: MemoryData

    async def configure_queue(self, queue: str, changes: Mapping[str, Any]) -> None:
        self._data.configure_queue(queue, changes)
        self._data.listeners.notify()

    async def queue_use(self, queue: str, key: str | None) -> QueueUse:
        rates, held = self._data.rates, self._data.held_in(queue)
        if key is None:
            return QueueUse(0, rates.get((queue, "")), None)
        return QueueUse(held[key], rates.get((queue, "")), rates.get((queue, key)))

    async def release_key(self, flow_id: str) -> None:
        flow = self._data.flows.get(flow_id)
        if flow is not None and flow.key is not None:
            del self._data.keys[flow.definition, flow.key]
            self._data.put(replace(flow, key=None))

    async def replace_input(self, flow_id: str, text: str, start_at: float) -> bool:
        flow = self._data.flows.get(flow_id)
        if flow is None or flow.claims > 0 or flow.status in FINISHED:
            return False
        times = {"start_at": start_at, "wake_at": start_at} if flow.status == "waiting" else {}
        self._data.put(replace(flow, input=text, **times))
        return True
