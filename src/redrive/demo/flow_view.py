"""Show a flow's log as it grows: a line for each event and, on a terminal, the running and waiting steps."""

from rich.markup import escape

from redrive.client.app import App
from redrive.demo.terminal import keep_showing, say
from redrive.determinism.clock import SYSTEM_CLOCK
from redrive.flows.events import (
    AnyEvent,
    AttemptFailed,
    AttemptStarted,
    FlowCompleted,
    FlowFailed,
    ItemAdded,
    ItemCompleted,
)
from redrive.flows.history import FlowHistory
from redrive.flows.item import Item
from redrive.policies import GiveUp


class FlowView:
    def __init__(self, app: App, flow_id: str) -> None:
        self.history = FlowHistory(whole=True)
        self._app = app
        self._flow_id = flow_id
        self._shown = 0
        self._began = 0.0
        self.keep_showing()

    def keep_showing(self) -> None:
        keep_showing(self._now)

    async def look(self) -> bool:
        """Show what is new in the log; False once the flow has ended."""
        for seq, at, event in (await self._app.read_lines(self._flow_id))[self._shown :]:
            self._shown = seq
            self._began = self._began or at
            self.history.apply(at, event)
            when = f"[dim]{at - self._began:6.2f} s[/]"
            for line in self._lines(event):
                say(f"{when}  {line}")
                when = " " * 8
        return self.history.ending is None

    def _lines(self, event: AnyEvent) -> list[str]:
        if isinstance(event, ItemAdded | AttemptStarted):
            item = self.history.items[event.item]
            return [f"{item.step}: attempt {item.attempt} begins"]
        if isinstance(event, ItemCompleted):
            return [f"[green]{self.history.items[event.item].step}: attempt {event.attempt} succeeded[/]"]
        if isinstance(event, AttemptFailed):
            return self._failed(self.history.items[event.item], event)
        if isinstance(event, FlowCompleted):
            return [f"[bold green]the flow is complete[/]: {escape(bytes(event.result).decode())}"]
        return [f"[bold red]the flow failed[/]: {escape(event.error.message)}"] if isinstance(event, FlowFailed) else []

    def _failed(self, item: Item, event: AttemptFailed) -> list[str]:
        failure, because = event.failure, event.decision.because
        number = event.attempt if because.attempts is None else f"{event.attempt} of {because.attempts}"
        how = "was lost" if failure.kind == "lost" else "failed"
        said = escape(failure.message or failure.type)
        lines = [
            f"[red]{item.step}: attempt {number} {how}[/]: {said}",
            f"  [dim]{failure.category}: {escape(failure.reason)}[/]",
        ]
        if isinstance(event.decision, GiveUp):
            return [*lines, f"  [red]no retry ({event.decision.kind})[/]: the workflow's own code handles it"]
        source = ", as Retry-After asks" if because.retry_after else ""
        return [*lines, f"  [yellow]attempt {event.attempt + 1} in {because.wait:.2f} s{source}[/]"]

    def _now(self) -> str:
        """Return the running and waiting steps as one line."""
        wall = SYSTEM_CLOCK.wall()
        words = []
        for item in self.history.items.values():
            if item.state == "running":
                words.append(f"{item.step}: attempt {item.attempt} running for {wall - item.attempt_began:.1f} s")
            elif item.state == "waiting" and item.retry_at is not None:
                words.append(f"{item.step}: attempt {item.attempt + 1} in {max(0.0, item.retry_at - wall):.1f} s")
        return " · ".join(words)
