"""An order as a workflow: ordinary Python, with every attempt, wait and result on disk.

The actions contain no retry code. They call the shop at SHOP_URL.
"""

import asyncio
import os
from typing import Any

import aiohttp
import msgspec

from redrive import RetryPolicy, Workflow, action, current_attempt, workflow


class Receipt(msgspec.Struct, frozen=True):
    number: str
    cents: int


class Shipment(msgspec.Struct, frozen=True):
    order: str
    receipt: Receipt
    gift: bool
    parcel: str


async def post(path: str, **body: Any) -> Any:
    """Call the shop. The idempotency key is the same on every attempt, so that the shop does the work once."""
    headers = {"Idempotency-Key": current_attempt().receipt_token}
    async with (
        aiohttp.ClientSession(os.environ["SHOP_URL"], raise_for_status=True) as session,
        session.post(path, json=body, headers=headers) as answer,
    ):
        return await answer.json()


@action
async def reserve(order: str) -> None:
    await post("/reserve", order=order)


@action
async def charge(order: str, cents: int) -> Receipt:
    return msgspec.convert(await post("/charge", order=order, cents=cents), Receipt)


@action
async def pack(order: str) -> str:
    parcel: str = (await post("/pack", order=order))["parcel"]
    return parcel


@action
async def notify(order: str) -> None:
    await post("/notify", order=order)


@action
async def add_gift(order: str) -> None:
    await post("/gift", order=order)


@action
async def ship(parcel: str) -> None:
    await post("/ship", parcel=parcel)


@workflow
class Order(Workflow):
    async def run(self, order: str, cents: int) -> Shipment:
        await reserve(order)
        retry_policy = RetryPolicy(attempts=6, exception_types=["ClientError"], backoff_seconds=0.5)
        receipt = await self.run_action(charge(order, cents), retry=retry_policy, timeout=2.0)
        parcel, _ = await asyncio.gather(pack(order), notify(order))
        try:
            await add_gift(order)
            gift = True
        except aiohttp.ClientResponseError:
            gift = False  # ship without the gift
        await ship(parcel)
        return Shipment(order, receipt, gift, parcel)
