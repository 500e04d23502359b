"""The test suite that every store must pass. To run it on your own store, write in a test module:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self, tmp_path):
            async def make_store():
                store = MyStore(tmp_path / "data")
                await store.open()
                return store

            return make_store

A test calls `make_store` several times: each call opens another store on the same data, as another process would. Each
test has new data, and the suite closes all stores at its end.
"""

import pytest

import redrive.testing.store_conformance.assert_rewriting  # noqa: F401 - before the tests
from redrive.testing.store_conformance.batches import BatchConformance
from redrive.testing.store_conformance.children import ChildConformance
from redrive.testing.store_conformance.claims import ClaimConformance
from redrive.testing.store_conformance.commits import CommitConformance
from redrive.testing.store_conformance.dead_letters import DeadLetterConformance
from redrive.testing.store_conformance.flow_control import FlowControlConformance
from redrive.testing.store_conformance.flows import FlowConformance
from redrive.testing.store_conformance.inbox import InboxConformance
from redrive.testing.store_conformance.leases import LeaseConformance
from redrive.testing.store_conformance.observations import ObservationConformance
from redrive.testing.store_conformance.queues import QueueConformance
from redrive.testing.store_conformance.registry import RegistryConformance
from redrive.testing.store_conformance.runs import RunConformance
from redrive.testing.store_conformance.scenario import MakeStore
from redrive.testing.store_conformance.schedules import ScheduleConformance
from redrive.testing.store_conformance.wakes import WakeConformance


class StoreConformance(
    LeaseConformance,
    FlowConformance,
    ClaimConformance,
    CommitConformance,
    ChildConformance,
    RunConformance,
    InboxConformance,
    DeadLetterConformance,
    QueueConformance,
    FlowControlConformance,
    ObservationConformance,
    BatchConformance,
    RegistryConformance,
    ScheduleConformance,
    WakeConformance,
):
    """The tests that every store must pass."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Return a function that opens another store on the data of this test."""
        raise NotImplementedError("override the fixture make_store to give the suite your store")


__all__ = ["MakeStore", "StoreConformance"]
