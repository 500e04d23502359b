"""Plays every failure to every library behind a plain `redrive.retry`, many at a time."""

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
from tests.misbehaving.failures import STATUSES as STATUSES_OF_LIBRARIES
from tests.misbehaving.library import Library

import redrive
from redrive.policies.decision import RetryAt
from redrive.testing import no_waits

from .failures import NETWORK, RETRY_AFTERS, STATUSES, VENDORS, Failure
from .libraries import http_libraries, socket_libraries

AT_ONCE = 24


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """What redrive did."""

    section: str
    library: str
    failure: str
    error: str
    """The class of the library's error."""
    category: str
    status: int | None
    made: int
    """Attempts."""
    waits: list[float]
    told: float | None
    """The wait that the server asked for, in seconds."""
    gave_up: str

    def text(self) -> str:
        if self.gave_up != "exhausted":
            return f"gave up: {self.gave_up}"
        return "waited as told" if self.told else "retried"


def play(section: str, library: Library, failure: Failure) -> Cell:
    """Call the library under the default policy until redrive gives up."""
    with library.server(failure.played) as address, no_waits():
        try:
            redrive.retry(lambda: library.provoke(failure.how, address))()
        except Exception as error:
            report = redrive.report_of(error)
            kind = type(error)
        else:
            raise AssertionError(f"{library.name} did not fail: {failure.title}")
    assert report is not None, f"{kind} has no report"
    decisions = [record.decision for record in report.attempts]
    last = report.attempts[-1].failure
    return Cell(
        section=section,
        library=library.name,
        failure=failure.title,
        error=f"{kind.__module__}.{kind.__qualname__}",
        category=last.category,
        status=last.status,
        made=report.made,
        waits=[decision.because.wait for decision in decisions if isinstance(decision, RetryAt)],
        told=last.retry_after,
        gave_up=report.gave_up.kind,
    )


def plays() -> Iterator[tuple[str, Library, Failure]]:
    """All cells of the page; those that do not apply to a library are left out."""
    over_http = http_libraries()
    for library in [*over_http, *socket_libraries()]:
        yield from (("network", library, failure) for failure in NETWORK if failure.how not in library.without)
    for library in over_http:
        if not set(STATUSES_OF_LIBRARIES) & set(library.without):
            yield from (("statuses", library, failure) for failure in STATUSES)
            yield from (("retry_after", library, failure) for failure in RETRY_AFTERS)
        yield from (("vendors", library, failure) for failure in VENDORS.get(library.name, ()))


def played() -> list[Cell]:
    """Play everything. The first cell of each library runs alone: importing in several threads may deadlock."""
    todo = list(plays())
    firsts = list({library.name: (section, library, failure) for section, library, failure in reversed(todo)}.values())
    with warnings.catch_warnings(), ThreadPoolExecutor(AT_ONCE) as threads:
        warnings.simplefilter("ignore")
        for first in firsts:
            play(*first)
        return list(threads.map(lambda one: play(*one), todo))
