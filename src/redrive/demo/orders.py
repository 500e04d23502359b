"""An order as a workflow: ordinary Python, with every attempt, wait and result on disk.

The actions contain no retry code. They call the shop at SHOP_URL, with nothing but the standard library.
"""

import asyncio
import json
import os
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from redrive import RetryPolicy, Workflow, action, current_attempt, workflow

# The shop is on this machine, whatever proxy the environment names.
SHOP = build_opener(ProxyHandler({}))


class Receipt(msgspec.Struct, frozen=True):
    number: str
    cents: int


class Shipment(msgspec.Struct, frozen=True):
    order: str
    receipt: Receipt
    gift: bool
    parcel: str


def post(path: str, **body: Any) -> Any:
    """Call the shop. The idempotency key is the same on every attempt, so that the shop does the work once."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": current_attempt().receipt_token}
    url = os.environ["SHOP_URL"] + path
    request = Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - the demo's own server
    with SHOP.open(request, timeout=3) as answer:
        return json.load(answer)


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
