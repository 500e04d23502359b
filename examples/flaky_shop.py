"""The shop that the orders of the demo call: a real HTTP server, and it fails as told."""

import json
import threading
from collections import Counter, defaultdict

from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

SLOW = Reply(fault="hang")

# What goes wrong with the calls of each path, in order; the calls after that are answered.
FAILURES = {
    "/charge": [
        Reply(status=503, headers={"Retry-After": "1"}),
        Reply(fault="reset"),
        SLOW,  # and meanwhile the worker is killed
        SLOW,  # for so long that the attempt is cut
    ],
    "/notify": [Reply(status=500)],
    "/gift": [Reply(status=404)],
}
TAKES_THE_MONEY_AND_DOES_NOT_ANSWER = 3


class FlakyShop:
    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """Calls by path."""
        self.keys: defaultdict[str, set[str]] = defaultdict(set)
        """The idempotency keys that came with them."""
        self.charged: dict[str, int] = {}
        """What was taken, by idempotency key."""
        self.took_the_money = threading.Event()
        """Set when a charge was made whose answer does not come."""
        self._lock = threading.Lock()
        self._server = FlakyServer(then=self._answer)

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> "FlakyShop":
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(None, None, None)

    def _answer(self, seen: Seen) -> Reply:
        with self._lock:
            key = seen.headers["idempotency-key"]
            self.calls[seen.path] += 1
            self.keys[seen.path].add(key)
            call = self.calls[seen.path]
            failures = FAILURES.get(seen.path, [])
            works = call > len(failures)
            if seen.path == "/charge" and (works or call == TAKES_THE_MONEY_AND_DOES_NOT_ANSWER):
                # The same key is the same charge.
                self.charged.setdefault(key, json.loads(seen.body)["cents"])
            if seen.path == "/charge" and call == TAKES_THE_MONEY_AND_DOES_NOT_ANSWER:
                self.took_the_money.set()
            if not works:
                return failures[call - 1]
            return Reply(body=self._body(seen.path, key))

    def _body(self, path: str, key: str) -> object:
        if path == "/charge":
            return {"number": f"R-{1000 + len(self.charged)}", "cents": self.charged[key]}
        return {"parcel": "P-17"} if path == "/pack" else {}
