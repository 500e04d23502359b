"""The errors that every store raises alike."""

from redrive.errors import LeaseLostError, StoreError, StoreUnusableError
from redrive.stores.leases import Lease


def lease_lost(lease: Lease, why: str = "") -> LeaseLostError:
    ended = f"is no longer valid: {why}" if why else "has expired or was taken away"
    return LeaseLostError(f"the lease of {lease.worker} (epoch {lease.epoch}) {ended}")


def not_open(where: str) -> StoreError:
    return StoreError(f"{where}: the store is not open; use it inside `async with redrive.open(...)`")


def flow_exists(flow_id: str) -> StoreError:
    return StoreError(f"flow {flow_id} already exists; nothing was written")


def key_exists(key_id: str) -> StoreError:
    return StoreError(f"key {key_id} already exists; nothing was written")


def queue_has_limit(queue: str) -> StoreError:
    return StoreError(f"queue {queue} has a limit, so its flows must be claimed; nothing was written")


def flow_not_owned(lease: Lease, flow_id: str) -> StoreError:
    return StoreError(f"{lease.worker} does not own flow {flow_id}; nothing was written")


def pre_release_layout(where: str) -> StoreUnusableError:
    return StoreUnusableError(
        f"{where}: this store was written by a pre-release version of redrive, and this version cannot read it;"
        " finish its flows with the version that wrote it, or open a new store"
    )
