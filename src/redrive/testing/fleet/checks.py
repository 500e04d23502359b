"""What must hold at the end of a history, whatever went wrong in it."""

from collections.abc import Sequence

from redrive.errors import NondeterminismError, RedriveError
from redrive.flows.chunks import run_to_completion
from redrive.flows.drivers import driver_for
from redrive.flows.events import COMMANDS, FlowBegan, FlowFailed, Line
from redrive.flows.history import FlowHistory, fold
from redrive.flows.replay import replay
from redrive.stores.records import FINISHED, FlowRecord
from redrive.testing.fleet.findings import Findings
from redrive.testing.fleet.machine import Machine
from redrive.testing.fleet.server import Server
from redrive.worker.event_rows import lines_of


def log_of(server: Server, flow_id: str) -> list[Line]:
    return lines_of([row for _, row in sorted(server.data.events.get(flow_id, {}).items())])


def check_settled(server: Server, findings: Findings) -> None:
    """The logs are sound, and say what the flows' rows say."""
    data = server.data
    for flow_id, problem in server.ledger.problems:
        findings.add("a log that is not sound", problem, flow_id)
    for problem in server.problems:
        findings.add("a limit was exceeded", problem)
    keys: dict[tuple[str, str], str] = {}
    for flow in data.flows.values():
        if flow.key is not None and keys.setdefault((flow.definition, flow.key), flow.id) != flow.id:
            findings.add(
                "two flows with one key", f"{flow.id} and {keys[flow.definition, flow.key]} have {flow.key}", flow.id
            )
        if flow.status in FINISHED:
            _check_log(server, flow, findings)
        letter = data.dead.get(flow.id)
        if flow.status == "failed" and letter is None:
            findings.add("a failed flow without a dead letter", flow.id, flow.id)
        if letter is not None and letter.state == "dead" and flow.status != "failed":
            findings.add("a dead letter of a flow that goes on", f"flow {flow.id} is {flow.status}", flow.id)


def _check_log(server: Server, flow: FlowRecord, findings: Findings) -> None:
    lines = log_of(server, flow.id)
    ending = fold(lines).ending
    if ending is None or type(ending).__name__.removeprefix("Flow").lower() != flow.status:
        findings.add(
            "a log that ends otherwise", f"flow {flow.id} is {flow.status}, and its log ends with {ending}", flow.id
        )
        return
    began = next((line.at for line in lines if isinstance(line.event, (*COMMANDS, FlowBegan))), None)
    if began is None or flow.status == "cancelled" or (isinstance(ending, FlowFailed) and ending.kind == "poison"):
        # Its code may not have had a say in its end.
        return
    driver = driver_for(flow.definition, flow.id, flow.input, flow.run_from)
    try:
        run_to_completion(replay(lines, driver, FlowHistory(), began))
    except NondeterminismError as error:
        findings.add("a log that cannot be replayed", f"flow {flow.id}: {error}", flow.id)
    except RedriveError:
        # The flow failed with it, too.
        pass
    finally:
        driver.discard()


def check_rest(server: Server, workers: Sequence[Machine], findings: Findings) -> None:
    """Nothing is left behind: no rows, no slots, no permits, no flows in memory."""
    data = server.data
    for (flow_id, item), row in data.retries.items():
        findings.add("a row is left in the retry queue", f"{flow_id}.{item}: {row}", flow_id)
    for flow_id, item in data.heartbeats:
        findings.add("a heartbeat is left", f"{flow_id}.{item}", flow_id)
    for message in data.messages.values():
        findings.add("a message is left", f"{message.flow_id}: {message.body}", message.flow_id)
    for machine in workers:
        worker = machine.app.current_worker if machine.is_up else None
        if worker is None or not worker.joined.is_set():
            continue
        left = {
            "attempts": worker.slots.running,
            "slots": worker.slots.in_use,
            "waiters for slots": int(worker.slots.has_waiters),
            "permits": len(worker.guard.permits),
            "flows in memory": len(worker.flows),
        }
        for what, count in left.items():
            if count:
                findings.add("something is left in a worker", f"{count} {what} on {machine.name}")
