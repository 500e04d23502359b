"""Guarded calls to a real HTTP server with scripted failures: `python -m examples.guarded_calls`."""

import json
import time
from typing import Any
from urllib.request import urlopen

from rich.markup import escape

import redrive
from redrive.demo.terminal import console, keep_showing, say, scene, stop_showing
from redrive.policies import RetryAt
from redrive.telemetry.events import AttemptFailed, CallRecovered, CallRefused, CircuitChanged, Event, FallbackUsed
from redrive.testing import FlakyServer, Reply

# Short, so that the demo need not wait for the default of 30 s until the circuit closes again.
COOLDOWN = 1.0


def show_event(event: Event) -> None:
    """Show an event as it happens, for `redrive.listen(show_event)`."""
    stop_showing()
    if isinstance(event, AttemptFailed):
        failure, because = event.failure, event.decision.because
        declared = isinstance(event.decision, RetryAt) and failure.category != "transient"
        reason = (
            f"declared: the policy names {because.matched}" if declared else f"{failure.category}: {failure.reason}"
        )
        say(f"[red]attempt {event.attempt} of {event.attempts} failed[/]: {escape(failure.message or failure.type)}")
        say(f"  [dim]{escape(reason)}[/]")
        if isinstance(event.decision, RetryAt):
            source = " as Retry-After asks" if because.retry_after else ""
            say(f"  [yellow]next attempt in {because.wait:.2f} s{source}[/]")
            count_down(because.wait)
        else:
            say(f"  [red]giving up ({event.decision.kind})[/]: {escape(because.detail)}")
    elif isinstance(event, CallRecovered):
        say(f"[green]succeeded at attempt {event.attempts}[/] after {event.elapsed:.2f} s")
    elif isinstance(event, CallRefused):
        say(f"[red]refused without a call[/]: the next probe may go in {event.retry_in:.2f} s")
    elif isinstance(event, FallbackUsed):
        say(f"[green]answered by the fallback[/]: {event.fallback}")
    elif isinstance(event, CircuitChanged):
        say(f"[magenta]circuit of {event.dependency}: {event.before} -> {event.after}[/]")


def count_down(seconds: float) -> None:
    until = time.perf_counter() + seconds
    keep_showing(lambda: f"waiting {max(0.0, until - time.perf_counter()):.1f} s")


def get(url: str) -> Any:
    """An ordinary function without retry code."""
    with urlopen(url, timeout=5) as answer:  # noqa: S310 - the demo's own server, on this machine
        return json.load(answer)


def transient_failures() -> None:
    scene(1, "The server is overloaded for a moment")
    fetch = redrive.retry(get)
    with FlakyServer(503, 503, then=Reply(body={"price": 42})) as server:
        say(f"the answer: {fetch(server.url)}")


def retry_after() -> None:
    scene(2, "The server says when to come back")
    fetch = redrive.retry(get)
    with FlakyServer(Reply(status=429, headers={"Retry-After": "1"})) as server:
        fetch(server.url)


def permanent_failure() -> None:
    scene(3, "A failure that no retry can fix")
    fetch = redrive.retry(get)
    with FlakyServer(then=404) as server:
        try:
            fetch(server.url + "/no-such-thing")
        except OSError:
            say(f"requests that reached the server: {len(server.seen)}")


class WarehouseBusy(Exception):
    """An error of this program: redrive cannot know whether it is transient."""


def check_stock(url: str) -> Any:
    stock = get(url)
    if stock["busy"]:
        raise WarehouseBusy("the warehouse is counting")
    return stock


def unknown_failure() -> None:
    scene(4, "An error that redrive does not know, first undeclared, then declared")
    script = Reply(body={"busy": True}), Reply(body={"busy": True}), Reply(body={"busy": False, "left": 7})
    with FlakyServer(*script) as server:
        try:
            redrive.retry(check_stock)(server.url)
        except WarehouseBusy as error:
            report = redrive.report_of(error)
            say(f"next: {report.next_step if report else ''}")
        say("now with retry_on=(redrive.TRANSIENT, WarehouseBusy):")
        declared = redrive.retry(retry_on=(redrive.TRANSIENT, WarehouseBusy))(check_stock)
        say(f"the answer: {declared(server.url)}")


def circuit() -> None:
    scene(5, "A service that is down: the circuit opens, refuses calls, and closes again")
    redrive.define_dependency("payments", circuit=redrive.CircuitSettings(failures=3, cooldown=COOLDOWN))
    payments = redrive.Retrier(redrive.Policy(backoff=redrive.constant(0.2)), operation="pay", dependency="payments")
    with FlakyServer(503, 503, 503) as server:
        try:
            payments.call(get, server.url)
        except OSError:
            say("the first caller got the error")
        try:
            payments.call(get, server.url)
        except redrive.CircuitOpenError as refusal:
            time.sleep(refusal.retry_in)
        payments.call(get, server.url)
        say(f"calls to the server: {len(server.seen)}")


@redrive.retry
def page(url: str) -> Any:
    return service(url)


@redrive.retry
def service(url: str) -> Any:
    return client(url)


@redrive.retry
def client(url: str) -> Any:
    return get(url)


def nested_layers() -> redrive.policies.Report | None:
    scene(6, "Three layers that each allow three attempts")
    with FlakyServer(then=503) as server:
        try:
            page(server.url)
        except OSError as error:
            say(f"[bold]calls to the server: {len(server.seen)}, not 27[/]: the outermost layer owns the retries")
            return redrive.report_of(error)
    return None


def main() -> None:
    stop = redrive.listen(show_event)
    try:
        transient_failures()
        retry_after()
        permanent_failure()
        unknown_failure()
        circuit()
        report = nested_layers()
    finally:
        stop()
        stop_showing()
    console.print("\n[bold cyan]The report of the last error[/]: redrive.report_of(error)")
    console.print(escape(str(report)))
    console.print("\n[bold]Try next[/]: redrive policy preview --text 'attempts: 5', README.md, docs/guard-a-call.md")


if __name__ == "__main__":
    main()
