"""The definitions of a shop in the middle of a bad night; `redrive serve` loads this file.

The payment provider is down, the warehouse asks to come back later, some orders can never work, a report takes hours,
and a deploy changed a workflow that is still on its way.
"""

import asyncio

from tests.dashboard.hostile_text import IMAGE, SCRIPT

import redrive
from redrive import CircuitSettings, Graph, Policy, RetryPolicy, Workflow, action, exponential, workflow

seen_before: set[str] = set()
"""Tables for which the workflow Migration has run: its code is another one the second time, as after a deploy."""

# No probe comes while the tests run: each would spend an attempt of an order, and change why it waits.
redrive.define_dependency("payments", circuit=CircuitSettings(failures=4, cooldown=1800.0))
redrive.define_dependency("warehouse")
redrive.define_dependency("archive")


@action(
    name="charge_card",
    dependency="payments",
    retry=Policy(attempts=8, backoff=exponential(2.0), max_wait=600.0, deadline=86400.0, max_retry_after=3600.0),
)
async def charge_card(order: str, cents: int) -> str:
    raise ConnectionError("pay.example.net:443: connection refused")


@action(
    name="reserve_stock",
    dependency="warehouse",
    retry=Policy(attempts=6, backoff=exponential(1.0), max_wait=300.0, deadline=86400.0, max_retry_after=3600.0),
)
async def reserve_stock(order: str) -> str:
    raise redrive.RetryAfter("40m", "stock-taking until the shift ends")


@action(name="price", retry=RetryPolicy(attempts=3))
async def price(order: str) -> int:
    await asyncio.sleep(0.02)
    return 4200


@action(name="send_mail", retry=RetryPolicy(attempts=3))
async def send_mail(to: str) -> str:
    if "@" not in to:
        raise redrive.Permanent(f"550 5.1.1 no mailbox named {to}")
    return f"sent to {to}"


@action(name="resize_image")
async def resize_image(name: str) -> str:
    raise ValueError(f"{name}: not an image")


@action(name="look_up_customer", retry=RetryPolicy(attempts=3, backoff_seconds=0.05))
async def look_up_customer(customer: str) -> str:
    raise TimeoutError(f"crm.example.net did not answer in 2 s, asked for {customer}")


@action(name="write_report")
async def write_report(month: str) -> str:
    await asyncio.sleep(3600)
    return month


@action(name="make_thumbnail", retry=RetryPolicy(attempts=5, backoff_seconds=0.05))
async def make_thumbnail(number: int) -> str:
    if number % 7 == 0 and redrive.current_attempt().number == 1:
        raise ConnectionError("images.example.net: connection reset")
    return f"thumbnail {number}"


@action(name="import_row", dependency="archive")
async def import_row(number: int) -> str:
    return f"row {number}"


@action(name="spoil")
async def spoil(name: str) -> str:
    raise redrive.Permanent(name)


@action(name="echo")
async def echo(value: str) -> str:
    return value


@action(name=SCRIPT, dependency=IMAGE, retry=RetryPolicy(attempts=4, backoff_seconds=3600))
async def attack(name: str) -> str:
    raise ConnectionError(name)


@workflow(name="Order")
class Order(Workflow):
    async def run(self, order: str) -> str:
        cents = await price(order)
        return await charge_card(order, cents)


@workflow(name="Restock")
class Restock(Workflow):
    async def run(self, order: str) -> str:
        return await reserve_stock(order)


@workflow(name="Onboarding")
class Onboarding(Workflow):
    async def run(self, customer: str) -> str:
        return await look_up_customer(customer)


@workflow(name="Reminder")
class Reminder(Workflow):
    async def run(self, hours: float) -> str:
        await asyncio.sleep(hours * 3600)
        return "reminded"


@workflow(name="Approval")
class Approval(Workflow):
    async def run(self, order: str) -> str:
        letter = await workflow.receive("approved", timeout="30d")
        return f"{order} was approved by {letter['by']}"


@workflow(name="Delivery")
class Delivery(Workflow):
    async def run(self, parcels: int) -> str:
        children = [await workflow.start_child(import_row(number)) for number in range(parcels)]
        await (await workflow.start_child(Reminder.call(2.0)))
        return f"{len(children)} delivered"


@workflow(name="Migration")
class Migration(Workflow):
    async def run(self, table: str) -> str:
        if table in seen_before:
            await send_mail("dba@example.net")
        seen_before.add(table)
        await price(table)
        await asyncio.sleep(3600)
        return table


@action(name="check_parcel")
async def check_parcel(order: str) -> float:
    return 3.5


@action(
    name="book_carrier",
    retry=Policy(attempts=5, backoff=exponential(600.0), max_wait=3600.0, deadline=86400.0, max_retry_after=3600.0),
)
async def book_carrier(weight: float) -> str:
    raise ConnectionError("carrier.example.net: no route to host")


@action(name="pack_line")
async def pack_line(line: str) -> str:
    await asyncio.sleep(0.05)
    return f"{line}, packed"


@action(name="print_label")
async def print_label(booking: str) -> str:
    return "label"


@action(name="hand_over")
async def hand_over(boxes: list[str], label: str) -> str:
    return "handed over"


parcel = (
    Graph("parcel", goals=["hand_over"])
    .step("check", check_parcel, outputs=["weight"])
    .step("pack", pack_line, inputs={"line": {"from": "lines"}}, for_each="line", outputs=["boxes"], parallelism=5)
    .step("book", book_carrier, outputs=["booking"])
    .step("label", print_label, outputs=["label"])
    .step("hand_over", hand_over, outputs=["receipt"])
)
redrive.register_graph(parcel)
