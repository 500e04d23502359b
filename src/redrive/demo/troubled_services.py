"""The services that the flows of `redrive demo --dashboard` call: a real HTTP server with outages that come and go."""

import json
from collections.abc import Callable
from typing import Any

from redrive.demo.outages import outage_of
from redrive.determinism.dice import Dice, seeded_dice
from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

# Calls that fail at any time, and then succeed at their next attempt.
USUAL_FAILURES = 0.03
KNOWN_COUNTRIES = ("DE", "FR", "JP", "PT", "US")


class TroubledServices:
    def __init__(self, elapsed: Callable[[], float], dice: Dice | None = None) -> None:
        """elapsed: returns the seconds since the demo began."""
        self._elapsed = elapsed
        self._dice = dice or seeded_dice("redrive demo")
        self._server = FlakyServer(then=self._reply)

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> "TroubledServices":
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(None, None, None)

    def _reply(self, seen: Seen) -> Reply:
        # Nobody reads them, and the demo may run for hours.
        self._server.seen.clear()
        service = seen.path.split("/")[1]
        outage = outage_of(service, self._elapsed())
        if outage is not None and self._dice() < outage.share:
            return outage.reply
        if self._dice() < USUAL_FAILURES:
            return Reply(status=500, body={"error": "please try again"})
        return answer(seen.path, json.loads(seen.body))


def answer(path: str, body: dict[str, Any]) -> Reply:
    """Return what a service that works answers; it refuses a wrong request however often it is sent."""
    if path == "/carrier/parcels" and body["country"] not in KNOWN_COUNTRIES:
        return Reply(status=422, body={"error": f"we do not deliver to {body['country']}"})
    if path == "/payments/charges" and body["cents"] > 90_000:
        return Reply(status=402, body={"error": "the card was declined"})
    return Reply(body={"id": f"{path.split('/')[1][:1].upper()}-{sum(map(ord, json.dumps(body))) % 9000 + 1000}"})
