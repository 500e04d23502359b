"""Propose what to do about a flow, with the commands that do it."""

import shlex
from collections.abc import Iterator

from redrive.errors import CrashLoopError
from redrive.explain.children import look_at_child
from redrive.explain.compensation import describe_compensation
from redrive.explain.flow_facts import FlowFacts
from redrive.explain.parts import Advice
from redrive.flows.errors.item_error import item_report
from redrive.flows.events import FlowFailed
from redrive.flows.registry import BY_GOALS, WORKFLOW


def resume(facts: FlowFacts, text: str) -> Advice:
    return Advice(text, f"redrive flows resume {facts.record.id} --why WHY")


def resume_queue(facts: FlowFacts) -> Advice:
    return Advice("resume the queue", f"redrive queues resume {shlex.quote(facts.record.queue)} --why WHY")


def cancel(facts: FlowFacts) -> Advice:
    if facts.history.cancel_requested is None:
        return Advice("to stop it", f"redrive flows cancel {facts.record.id} --why WHY")
    text = "to end it at once, without running its code and without compensation"
    return Advice(text, f"redrive flows cancel {facts.record.id} --force --why WHY")


def signal(facts: FlowFacts, name: str) -> Advice:
    return Advice("to send it", f"redrive signal {facts.record.id} {shlex.quote(name)} NAME=VALUE")


def later_run(facts: FlowFacts, current: int) -> list[Advice]:
    """Propose to look at the run that followed an earlier one."""
    following = facts.history.run + 1
    which = "" if following == current else f" --run {following}"
    return [Advice("see the run after it", f"redrive explain {facts.record.id}{which}")]


def shorten_log(facts: FlowFacts) -> Advice:
    """Say that the flow's log takes long to replay, and what shortens it."""
    text = f"its log has {facts.events:,} events, and whichever worker takes it over replays them all"
    if facts.record.definition.startswith(WORKFLOW):
        return Advice(f"{text}: call workflow.continue_as_new() now and then, which begins a new log")
    return Advice(f"{text}: let such work be several flows")


def start_worker(facts: FlowFacts) -> list[Advice]:
    """Propose a worker that can run the flow."""
    kind, _, name = facts.record.definition.partition(":")
    missing = facts.eligibility.missing_actions
    if facts.eligibility.lacks_version:
        version, flow = shlex.quote(facts.record.version or ""), facts.record.id
        return [
            Advice("start a worker with that code", f"redrive worker MODULE --version {version}{_queue_option(facts)}"),
            Advice("let workers of any version go on with it", f"redrive flows unpin {flow} --why WHY"),
            cancel(facts),
        ]
    if not facts.is_script and not missing:
        text, modules = f"start a worker with the module that defines {name}", "MODULE"
    else:
        text = f"start a worker with the {kind}, and with the modules that register its actions"
        modules = f"{name}.rd MODULE" if facts.is_script else "MODULE..."
    return [
        Advice(text, f"redrive worker {modules}{_queue_option(facts)}"),
        Advice(
            "or end it without its code, without compensation",
            f"redrive flows cancel {facts.record.id} --force --why WHY",
        ),
    ]


def after_failure(facts: FlowFacts) -> list[Advice]:
    """Propose what to do about a flow that failed for good."""
    if facts.is_discarded:
        return []
    ending = facts.history.ending
    failed = ending if isinstance(ending, FlowFailed) else None
    discard = Advice("or discard it: the flow stays failed", f"redrive dead discard {facts.record.id} --why WHY")
    if failed is not None and failed.kind == "compensated":
        return [*_after_compensation(facts), discard]
    item = facts.history.items.get(failed.item) if failed is not None and failed.item is not None else None
    if item is None and (facts.is_script or facts.is_graph):
        return [_start_again(facts), discard]
    report = item_report(item) if item else None
    return [
        *(look_at_child(facts) or [Advice(report.next_step if report else _fix_code(facts, failed))]),
        *_failure_handling(facts),
        _redrive(facts, item.step if item else ""),
        discard,
    ]


def is_crash_loop(ending: FlowFailed) -> bool:
    return ending.error.type == f"{CrashLoopError.__module__}.{CrashLoopError.__qualname__}"


def _after_compensation(facts: FlowFacts) -> Iterator[Advice]:
    failed = [item for item in facts.history.items.values() if item.compensates and item.state == "failed"]
    if failed:
        names, flow_id = ", ".join(dict.fromkeys(item.step for item in failed)), facts.record.id
        yield Advice(
            f"fix the cause, then redrive it: the compensation goes on with {names}, and nothing is compensated twice",
            f"redrive dead redrive {flow_id} --why WHY",
        )
        yield Advice(
            "or compensate it manually, and say so", f"redrive flows resolve {flow_id} {failed[0].step} --why WHY"
        )
    elif facts.uncompensated:
        yield Advice(f"undo manually what could not be compensated: {', '.join(facts.uncompensated)}")
    how = describe_compensation(facts.uncompensated)
    yield Advice(f"{how}, so the work itself cannot go on here: fix the cause of that, and start another flow")


def _start_again(facts: FlowFacts) -> Advice:
    """Propose another flow: a redrive would run the same script or plan, which fails again."""
    name = facts.record.definition.partition(":")[2]
    if facts.is_script:
        text = "it keeps the text it was started with, and would fail there again: correct the file, and start "
        return Advice(text + "another flow", f"redrive start {name}.rd --input JSON{_queue_option(facts)}")
    text = "it keeps the plan and the inputs it was started with, and would fail there again: fix the cause, and "
    command = "" if name == BY_GOALS else f"redrive start {name}.yaml --input JSON{_queue_option(facts)}"
    return Advice(text + "start another flow", command)


def _fix_code(facts: FlowFacts, failed: FlowFailed | None) -> str:
    if failed is None or failed.kind != "poison" or is_crash_loop(failed):
        return "fix the workflow's code"
    # With work items, the unreadable value may be a stored result, which cannot be changed any more.
    return f"fix {'' if facts.items else 'its input, or '}the code that reads it"


def _failure_handling(facts: FlowFacts) -> Iterator[Advice]:
    if facts.failure_handling and not facts.is_graph:
        yield Advice(
            f"what its code did because of the failure ({', '.join(facts.failure_handling)}) stays done, and a redrive "
            "goes on as if it had not happened: if that compensated earlier steps, start another flow instead"
        )


def _redrive(facts: FlowFacts, step: str) -> Advice:
    again = f"{step} is tried again under the policy it began with, its limits counted anew"
    text = f"then redrive it: {again if step else 'its code is run again where it failed'}"
    return Advice(text, f"redrive dead redrive {facts.record.id} --why WHY")


def _queue_option(facts: FlowFacts) -> str:
    return "" if facts.record.queue == "default" else f" --queue {facts.record.queue}"
