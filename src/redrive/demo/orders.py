"""An order as a workflow: ordinary Python, with every attempt, wait and result on disk.

The actions contain no retry code.
"""

import asyncio
from urllib.error import HTTPError

import msgspec

from redrive import RetryPolicy, Workflow, action, workflow
from redrive.demo.shop_client import post


class Receipt(msgspec.Struct, frozen=True):
    number: str
    cents: int


class Shipment(msgspec.Struct, frozen=True):
    order: str
    receipt: Receipt
    gift: bool
    parcel: str


@action
def reserve(order: str) -> None:
    post("/reserve", order=order)


@action
def charge(order: str, cents: int) -> Receipt:
    return msgspec.convert(post("/charge", order=order, cents=cents), Receipt)


@action
def pack(order: str) -> str:
    parcel: str = post("/pack", order=order)["parcel"]
    return parcel


@action
def notify(order: str) -> None:
    post("/notify", order=order)


@action
def add_gift(order: str) -> None:
    post("/gift", order=order)


@action
def ship(parcel: str) -> None:
    post("/ship", parcel=parcel)


@workflow
class Order(Workflow):
    async def run(self, order: str, cents: int) -> Shipment:
        await reserve(order)
        retry_policy = RetryPolicy(attempts=6, exception_types=["OSError"], backoff_seconds=0.5)
        receipt = await self.run_action(charge(order, cents), retry=retry_policy, timeout=2.0)
        parcel, _ = await asyncio.gather(pack(order), notify(order))
        try:
            await add_gift(order)
            gift = True
        except HTTPError:
            gift = False  # ship without the gift
        await ship(parcel)
        return Shipment(order, receipt, gift, parcel)
