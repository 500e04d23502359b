"""Give the open work items of a flow another retry policy, and decide their running waits anew."""

import logging
from collections import defaultdict
from collections.abc import Sequence

from redrive.errors import NotationError
from redrive.flows.events import ItemGaveUp
from redrive.flows.item import Item
from redrive.flows.messages import ChangePolicy
from redrive.flows.policy_change import changed_policy
from redrive.flows.policy_events import PolicyChanged
from redrive.flows.stored_policy import write_stored_policy
from redrive.policies.decision import RetryAt
from redrive.policies.policy import Policy
from redrive.telemetry.logs import log_flow
from redrive.worker.flow.flow_run import FlowRun


def change_policy(run: FlowRun, said: ChangePolicy, at: float) -> None:
    """Log the change with the decisions that follow from it, then wait as they say, or give up."""
    following: defaultdict[Policy, list[Item]] = defaultdict(list)
    for item in run.log.history.items.values():
        if item.is_open and said.step in ("", item.step):
            try:
                following[changed_policy(item.policy, said)].append(item)
            except NotationError as error:
                log_flow(logging.ERROR, run.id, "item %s keeps its policy: %s", item.number, error)
    if run.log.released or not following:
        said_by = said.by or "someone"
        log_flow(logging.INFO, run.id, "no work is open; the policy that %s gave it is dropped", said_by)
        return
    for policy, items in following.items():
        if not run.log.released:
            _follow(run, policy, [item for item in items if item.is_open], said, at)
    if not run.log.released:
        run.wake()


def _follow(run: FlowRun, policy: Policy, items: Sequence[Item], said: ChangePolicy, at: float) -> None:
    decided = {item.number: run.attempts.decide_again(item, policy) for item in items if _is_in_backoff(item, at)}
    event = PolicyChanged(
        items=tuple(item.number for item in items),
        policy=write_stored_policy(policy),
        decisions={number: decision for number, decision in decided.items() if isinstance(decision, RetryAt)},
        by=said.by,
        why=said.why,
    )
    run.log.append(at, event)
    for item in items:
        decision = decided.get(item.number)
        if isinstance(decision, RetryAt):
            run.starter.wait_for_retry(item, decision.when, at)
        elif item.number in run.starter.listed:
            # Its row says what its policy allows.
            run.starter.list_again(item)
    for item in items:
        decision = decided.get(item.number)
        # When one gives up, the flow may end, or cancel others.
        if decision is not None and not isinstance(decision, RetryAt) and item.is_open and not run.log.released:
            last = item.failures[-1].event
            run.commands.stop_item(item)
            gave_up = ItemGaveUp(item=item.number, failure=last.failure, error=last.error, decision=decision)
            run.attempts.give_up(item, gave_up, at)
            run.starter.release_step(item, at)


def _is_in_backoff(item: Item, at: float) -> bool:
    """Whether the item waits because of a failure: not for its dependency, nor since it was snoozed or is due."""
    return (
        item.state == "waiting"
        and item.decided_from is not None
        and bool(item.failures)
        and item.retry_kind == item.failures[-1].event.failure.kind
        and item.retry_at is not None
        and item.retry_at > at
    )
