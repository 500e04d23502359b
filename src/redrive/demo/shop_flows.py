"""The flows of `redrive demo --dashboard`: workflows, jobs and a graph that call services with outages."""

import asyncio
from typing import Any

import redrive
from redrive import Graph, Workflow, action, workflow
from redrive.demo.shop_client import post
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.policies import Backoff, Policy

# Shorter than usual, so that a visitor of ten minutes sees several probes.
COOLDOWN = 15.0
for service in ("payments", "mail", "carrier", "warehouse"):
    redrive.define_dependency(service, circuit=redrive.CircuitSettings(failures=5, cooldown=COOLDOWN))

# Too few attempts for a long outage: what is left over becomes dead letters.
IMPATIENT = Policy(attempts=3, backoff=Backoff("exponential", 1.5))
MAIL_POLICY = "[HTTPError -> retry: 20, backoff: 5s, max_backoff: 1m] [retry: 5, backoff: 2s]"


@action(dependency="warehouse", retry=Policy(attempts=8, backoff=Backoff("linear", 2.0)))
def reserve_goods(order: str) -> str:
    reserved: str = post("/warehouse/reservations", order=order)["id"]
    return reserved


@action(dependency="payments", timeout="5s")
def charge_card(order: str, cents: int) -> str:
    """Charge under the default policy of durable work: transient failures are retried for a day."""
    receipt: str = post("/payments/charges", order=order, cents=cents)["id"]
    return receipt


@action(dependency="carrier", retry=IMPATIENT, timeout="5s")
def book_parcel(order: str, country: str) -> str:
    parcel: str = post("/carrier/parcels", order=order, country=country)["id"]
    return parcel


@action(dependency="mail", retry=MAIL_POLICY)
def send_mail(to: str, subject: str) -> str:
    message: str = post("/mail/messages", to=to, subject=subject)["id"]
    return message


@action
def import_price(row: dict[str, Any]) -> int:
    """Fail for good where the row has no price: retrying would not help."""
    return int(row["price"]) * 100


@action
async def render_report(day: str) -> str:
    """Block the worker's event loop, as code does that forgets to await: the page of the workers shows it."""
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.monotonic() + 1.5)
    await asyncio.sleep(6)  # noqa: TID251 - as users write it
    return f"report of {day}"


@action
def list_lines(order: str) -> list[str]:
    return [f"{order}-{line}" for line in ("book", "pen", "lamp")]


@action(dependency="warehouse")
def pack_line(line: str) -> str:
    box: str = post("/warehouse/boxes", line=line)["id"]
    return box


@action(dependency="carrier", retry=IMPATIENT)
def hand_over(boxes: list[str], country: str) -> str:
    parcel: str = post("/carrier/parcels", boxes=boxes, country=country)["id"]
    return parcel


@workflow
class Checkout(Workflow):
    async def run(self, order: str, cents: int, country: str) -> dict[str, str]:
        reservation = await reserve_goods(order)
        receipt = await charge_card(order, cents)
        parcel, _ = await asyncio.gather(book_parcel(order, country), send_mail(f"{order}@shop.example", "Thank you"))
        return {"reservation": reservation, "receipt": receipt, "parcel": parcel}


@workflow
class Subscription(Workflow):
    """Charges three times, with a durable timer in between."""

    async def run(self, customer: str, cents: int) -> list[str]:
        receipts = []
        for month in range(1, 4):
            receipts.append(await charge_card(f"{customer}-month-{month}", cents))
            await send_mail(f"{customer}@shop.example", f"Your invoice of month {month}")
            await asyncio.sleep(45)  # noqa: TID251 - a durable timer in a workflow
        return receipts


fulfilment = (
    Graph("fulfilment", goals=["hand_over"])
    .step("list_lines", list_lines, outputs=["lines"])
    .step("pack_line", pack_line, inputs={"line": {"from": "lines"}}, for_each="line", outputs=["boxes"], parallelism=2)
    .step("hand_over", hand_over, outputs=["parcel"])
)
redrive.register_graph(fulfilment)
