"""What was really called, noted outside of the engine, and compared with what is durable at that moment."""

from collections import Counter
from typing import NamedTuple

from redrive.runners.attempt import Attempt
from redrive.testing.fleet.findings import Findings
from redrive.testing.fleet.ledger import Ledger
from redrive.testing.fleet.story import Story


class Call(NamedTuple):
    """One call of an action or a handler."""

    at: float
    machine: str
    flow_id: str
    item: int
    step: str
    attempt: int
    delivery: str


class Effects:
    """Notes each call of user code when it begins."""

    def __init__(self, ledger: Ledger, findings: Findings, story: Story) -> None:
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()
        """Receipt token -> how often the work was called."""
        self._deliveries: set[str] = set()
        self._ledger = ledger
        self._findings = findings
        self._story = story

    def began(self, machine: str, attempt: Attempt, at: float) -> int:
        """Note a call; return how often this work was called before."""
        flow_id, number, delivery = attempt.flow_id, attempt.item, attempt.delivery_token
        self._story.tell(machine, "calls", attempt.step, f"{flow_id}.{number}", f"attempt {attempt.number}")
        self.calls.append(Call(at, machine, flow_id, number, attempt.step, attempt.number, delivery))
        what = (
            f"attempt {attempt.number} of {attempt.step}, item {number} of flow {flow_id}, on {machine} at {at:.3f} s"
        )
        item = self._ledger.item(flow_id, number)
        if delivery in self._deliveries:
            self._findings.add("an attempt is called twice", what, flow_id)
        elif item is None or item.attempt < attempt.number:
            self._findings.add("a call that is not in the log", what, flow_id)
        elif item.state in ("done", "cancelled"):
            self._findings.add("recorded work is called again", f"{what}, though the item is {item.state}", flow_id)
        elif item.delivery != delivery:
            self._findings.add(
                "an attempt is called that is over", f"{what}; attempt {item.attempt} is {item.state}", flow_id
            )
        self._deliveries.add(delivery)
        token = f"{flow_id}.{number}"
        before = self.counts[token]
        self.counts[token] = before + 1
        return before
