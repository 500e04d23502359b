"""Flows of HTTP steps on a real store, and what their log and their handlers saw of them."""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode
from urllib.request import urlopen

import redrive
from redrive.client.app import App
from redrive.client.handle import Handle
from redrive.flows.events import AttemptFailed, AttemptStarted, ItemStarted, Line
from redrive.stores.records import FINISHED

T = TypeVar("T")
E = TypeVar("E")
PATIENCE = 20.0
LOOK_AGAIN = 0.005
ROUNDING = 5e-6
"""PostgreSQL keeps times to the microsecond, and the log those of decisions as they were."""

_names = (f"graph_{number}" for number in itertools.count(1))


class Call(NamedTuple):
    """What a handler received."""

    at: float
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def receipt(self) -> str:
        return self.headers["redrive-receipt-token"]

    @property
    def delivery(self) -> str:
        return self.headers["redrive-delivery-token"]

    @property
    def attempt(self) -> int:
        return int(self.headers["redrive-attempt"])

    @property
    def token(self) -> str:
        """What completes this attempt from outside."""
        return f"{self.receipt}.{self.delivery}"


class Handlers:
    """Those of tests/http_handlers.py, in a process of their own."""

    def __init__(self, url: str) -> None:
        self.url = url

    def at(self, how: str, **told: object) -> str:
        """The address of a handler that fails as told."""
        return f"{self.url}/{how}?{urlencode({name: str(value) for name, value in told.items()})}"

    def calls(self, flow_id: str) -> list[Call]:
        return [Call(**one) for one in self._command(f"seen?flow={flow_id}")]

    def release(self, name: str) -> None:
        self._command(f"release?name={name}")

    def peak(self, how: str) -> int:
        """How many calls there were at once."""
        peak: int = self._command("peaks").get(how, 0)
        return peak

    def _command(self, what: str) -> Any:
        with urlopen(f"{self.url}/{what}", timeout=PATIENCE) as answer:  # noqa: S310 - our own server
            return json.load(answer)


class Ended(NamedTuple):
    """A flow that has ended, its log, and the calls that its handlers received."""

    id: str
    status: str
    result: Any
    lines: list[Line]
    calls: list[Call]

    @property
    def words(self) -> list[str]:
        return [type(line.event).__name__ for line in self.lines]

    def events(self, kind: type[E]) -> list[E]:
        return [line.event for line in self.lines if isinstance(line.event, kind)]

    def failures(self) -> list[tuple[float, AttemptFailed]]:
        """Each with the time at which it was logged."""
        return [(line.at, line.event) for line in self.lines if isinstance(line.event, AttemptFailed)]

    def starts(self) -> list[tuple[float, AttemptStarted]]:
        """All attempts but the first ones."""
        return [(line.at, line.event) for line in self.lines if isinstance(line.event, AttemptStarted)]

    def deliveries(self) -> list[str]:
        first = [one.delivery for one in self.events(ItemStarted)]
        return [*first, *(one.delivery for one in self.events(AttemptStarted))]


def open_app(address: str, **settings: Any) -> App:
    """An app that may call this machine."""
    return redrive.open(address, http=redrive.HttpSettings(allow=("private",)), **settings)


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(story)


async def start(app: App, graph: str | Mapping[str, Any], inputs: Mapping[str, Any] | None = None) -> Handle[Any]:
    """Start a flow of a graph as people write it; in data its name may be left out."""
    written = graph if isinstance(graph, str) else {"graph": next(_names), **graph}
    read = redrive.read_graph(written)
    redrive.register_graph(read)
    return await app.start(read.call(inputs or {}))


async def start_step(app: App, endpoint: str, **step: Any) -> Handle[Any]:
    """A flow of one step."""
    return await start(app, {"steps": {"work": {"endpoint": endpoint, **step}}})


async def until(happened: Callable[[], Coroutine[Any, Any, T]], patience: float = PATIENCE) -> T:
    """What it answers, once that is true."""
    end = time.monotonic() + patience
    while not (answer := await happened()):
        assert time.monotonic() < end, "it has not happened in time"
        await asyncio.sleep(LOOK_AGAIN)
    return answer


async def logged(app: App, flow_id: str, kind: type[E], count: int = 1) -> list[E]:
    """The events of a kind, once there are so many."""

    async def there() -> list[E]:
        found: list[E] = [line.event for line in await app.log(flow_id) if isinstance(line.event, kind)]
        return found if len(found) >= count else []

    return await until(there)


async def called(handlers: Handlers, flow_id: str, count: int = 1, patience: float = PATIENCE) -> list[Call]:
    """The calls that the handlers received of a flow, once there are so many."""

    async def there() -> list[Call]:
        calls = await asyncio.to_thread(handlers.calls, flow_id)
        return calls if len(calls) >= count else []

    return await until(there, patience)


async def ended(app: App, handlers: Handlers, flow: Handle[Any] | str) -> Ended:
    flow_id = flow if isinstance(flow, str) else flow.id

    async def over() -> bool:
        return (await app.find(flow_id)).status in (*FINISHED, "parked")

    try:
        await until(over)
    except AssertionError:
        said = "\n".join(f"{line.seq} {line.at:.3f} {line.event}" for line in await app.log(flow_id))
        raise AssertionError(f"{await app.find(flow_id)}\n{said}") from None
    record = await app.find(flow_id)
    result = await app.handle(flow_id).result(timeout=PATIENCE) if record.status == "completed" else None
    calls = await asyncio.to_thread(handlers.calls, flow_id)
    return Ended(flow_id, record.status, result, await app.read_lines(flow_id), calls)
