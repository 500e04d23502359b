"""The other side of HTTP steps in a simulated fleet: answers at once, later, twice, or not at all."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from redrive.errors import InvalidOutcomeError, StoreUnavailableError
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt
from redrive.runners.http.answers import Accepted, Answer, outcome_of
from redrive.testing.fleet.history import History
from redrive.testing.fleet.machine import FleetApp

_UNAVAILABLE = Answer(status=503, headers={}, body=b"")


class Handlers:
    """Decides by the seed how each call is answered, and remembers which reports were acknowledged."""

    def __init__(self, history: Callable[[], History]) -> None:
        self._history = history
        self.acknowledged: dict[str, str] = {}
        """Delivery token -> the flow and item whose success was accepted."""

    async def handle(self, handler: HttpHandler, attempt: Attempt, body: str, before: int) -> Any:
        history = self._history()
        random = history.world.random
        order = msgspec.json.decode(body)["order"]
        outputs = {"stamp": f"s-{order}"}
        how = random.random() if before < 3 else 0.0
        if how < 0.3:
            return msgspec.json.encode(outputs).decode()
        if how < 0.4:
            return outcome_of(_UNAVAILABLE, handler, 1000, 0.0)
        if how < 0.5:
            # It never reports: the attempt is cut by its timeout.
            return Accepted()
        token = f"{attempt.flow_id}.{attempt.item}.{attempt.delivery_token}"
        report = msgspec.json.encode({"success": True, "outputs": outputs})
        if how < 0.65:
            # The report comes first, and then the answer, which may be an error.
            await self._report(history, token, report, 0.0)
            if random.random() < 0.5:
                return outcome_of(_UNAVAILABLE, handler, 1000, 0.0)
            return Accepted()
        late = random.choice((0.0, 0.1, 1.0, 2.9, 3.0, 4.0))
        self._report_later(history, token, report, late)
        if random.random() < 0.2:
            self._report_later(history, token, report, late + 0.2 * random.random())
        return Accepted()

    async def _report(self, history: History, token: str, body: bytes, late: float) -> None:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def reported() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_finish, done)

        self._report_later(history, token, body, late, reported)
        await done

    def _report_later(
        self, history: History, token: str, body: bytes, late: float, then: Callable[[], None] = lambda: None
    ) -> None:
        async def visit(app: FleetApp) -> None:
            for _ in range(5):
                try:
                    status = await app.report_outcome(token, body)
                except StoreUnavailableError:
                    await asyncio.sleep(0.3)
                    continue
                except InvalidOutcomeError as error:
                    history.findings.add("a report was refused", str(error))
                    break
                history.story.tell("handler", "reports", token, status)
                if status == "accepted":
                    self.acknowledged[token.rpartition(".")[2]] = token
                break
            then()

        history.visit(history.world.now + late, history.client, visit)


def _finish(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
