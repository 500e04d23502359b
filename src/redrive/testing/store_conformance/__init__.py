"""The suite that every store must pass. For a store of your own, in a test module:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def make_store(self, tmp_path):
            async def make_store():
                store = MyStore(tmp_path / "data")
                await store.open()
                return store

            return make_store

`make_store` is called several times in a test: each call opens one more store on the same data, as another process
would. The data is new for each test. Whatever was opened is closed at the end.
"""

import pytest

import redrive.testing.store_conformance.assert_rewriting  # noqa: F401 - before the tests
from redrive.testing.store_conformance.claims import ClaimConformance
from redrive.testing.store_conformance.commits import CommitConformance
from redrive.testing.store_conformance.dead_letters import DeadLetterConformance
from redrive.testing.store_conformance.flows import FlowConformance
from redrive.testing.store_conformance.inbox import InboxConformance
from redrive.testing.store_conformance.leases import LeaseConformance
from redrive.testing.store_conformance.registry import RegistryConformance
from redrive.testing.store_conformance.scenario import MakeStore
from redrive.testing.store_conformance.wakes import WakeConformance


class StoreConformance(
    LeaseConformance,
    FlowConformance,
    ClaimConformance,
    CommitConformance,
    InboxConformance,
    DeadLetterConformance,
    RegistryConformance,
    WakeConformance,
):
    """Everything that holds for every store."""

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Opens one more store on the data of this test."""
        raise NotImplementedError("give the suite your store: override the fixture make_store")


__all__ = ["MakeStore", "StoreConformance"]
