"""The shop that the demo's orders call: a real HTTP server with scripted failures."""

import json
import threading
from collections import Counter, defaultdict

from redrive.testing import FlakyServer, Reply
from redrive.testing.flaky_server import Seen

SLOW = Reply(fault="hang")

# The failures of the first calls to each path; later calls succeed.
FAILURES = {
    "/charge": [
        Reply(status=503, headers={"Retry-After": "1"}),
        Reply(fault="reset"),
        SLOW,  # the worker is killed meanwhile
        SLOW,  # until the attempt times out
    ],
    "/notify": [Reply(status=500)],
    "/gift": [Reply(status=404)],
}
CHARGED_WITHOUT_ANSWER = 3


class FlakyShop:
    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """Calls by path."""
        self.keys: defaultdict[str, set[str]] = defaultdict(set)
        """The idempotency keys of the calls, by path."""
        self.charged: dict[str, int] = {}
        """The cents charged, by idempotency key."""
        self.took_the_money = threading.Event()
        """Set when a charge is made but not answered."""
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
            if seen.path == "/charge" and (works or call == CHARGED_WITHOUT_ANSWER):
                # A repeated key does not charge again.
                self.charged.setdefault(key, json.loads(seen.body)["cents"])
            if seen.path == "/charge" and call == CHARGED_WITHOUT_ANSWER:
                self.took_the_money.set()
            if not works:
                return failures[call - 1]
            return Reply(body=self._body(seen.path, key))

    def _body(self, path: str, key: str) -> object:
        if path == "/charge":
            return {"number": f"R-{1000 + len(self.charged)}", "cents": self.charged[key]}
        return {"parcel": "P-17"} if path == "/pack" else {}
