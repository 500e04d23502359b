"""Workflows that wait for signals."""

from dataclasses import dataclass
from typing import Any

import redrive
from redrive import Workflow, action, workflow
from redrive.errors import Permanent

BROKEN: list[bool] = [False]


@dataclass
class Approval:
    by: str
    amount: float = 0.0


@action(name="approvals.ship")
async def ship(order: str, by: str) -> str:
    if BROKEN[0]:
        raise Permanent("the lorry is broken")
    return f"{order} shipped for {by}"


@workflow(name="approvals.Order")
class Order(Workflow):
    def __init__(self) -> None:
        self.approval: Approval | None = None
        self.notes: list[str] = []

    @redrive.signal
    def approved(self, approval: Approval) -> None:
        self.approval = approval

    @redrive.signal(name="note")
    def take_note(self, text: str) -> None:
        self.notes.append(text)

    async def run(self, order: str) -> str:
        try:
            await workflow.wait_for(lambda: self.approval is not None, timeout="30d")
        except TimeoutError as error:
            return f"{order} expired: {error}"
        assert self.approval is not None
        return f"{await ship(order, self.approval.by)}; notes: {' '.join(self.notes)}"


@workflow(name="approvals.Mail")
class Mail(Workflow):
    """Reads letters until one says stop."""

    async def run(self) -> list[Any]:
        read: list[Any] = []
        while (letter := await workflow.receive("letter"))["n"] != "stop":
            read.append(letter["n"])
        return read


@workflow(name="approvals.Steps")
class Steps(Workflow):
    """Takes as many signals as said, each followed by an action."""

    async def run(self, count: int) -> list[str]:
        return [await ship("step", (await workflow.receive("go"))["by"]) for _ in range(count)]
