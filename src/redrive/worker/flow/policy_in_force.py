"""Find the policy under which a new work item is tried, and say where it comes from."""

from collections.abc import Mapping
from typing import NamedTuple

from redrive.flows.action import Action
from redrive.flows.driver import Handler
from redrive.flows.stored_policy import DURABLE_DEFAULT, write_stored_policy
from redrive.policies.policy import Policy

_MOST_CACHED = 1000


class DefaultPolicies(NamedTuple):
    """What a worker uses instead of the durable default. The most specific one counts."""

    by_definition: Mapping[str, Policy] = {}
    """By the name of a workflow, graph, script or job, with or without its kind: "Billing" or "workflow:Billing"."""
    by_queue: Mapping[str, Policy] = {}
    for_all: Policy | None = None

    def of(self, definition: str, queue: str) -> tuple[Policy | None, str]:
        """Return the policy, and what it was set for."""
        found = self.by_definition.get(definition) or self.by_definition.get(definition.partition(":")[2])
        if found is not None:
            return found, "definition"
        found = self.by_queue.get(queue)
        return (self.for_all, "default") if found is None else (found, "queue")


class PolicyInForce:
    """Replaces the durable default by that of the worker, where it has one."""

    __slots__ = ("_default", "_found", "_origin")

    def __init__(self, default: Policy | None = None, origin: str = "default") -> None:
        """origin: what the default was set for."""
        self._default = default
        self._origin = origin
        self._found: dict[int, tuple[Policy, Policy | None]] = {}
        """By the id of a policy: the policy, and the default in its place. A few policies serve all items."""

    def of(self, policy: Policy, handler: Handler | Exception, is_step: bool) -> tuple[Policy, str]:
        """Return the policy to use instead of `policy`, which the definition asked for, and where it comes from."""
        known = self._found.get(id(policy))
        if known is None:
            if len(self._found) > _MOST_CACHED:
                self._found.clear()
            known = self._found[id(policy)] = (policy, self._default_for(policy))
        if known[1] is not None:
            return known[1], self._origin
        if isinstance(handler, Action) and (policy is handler.policy or policy == handler.policy):
            return policy, "action"
        return policy, "step" if is_step else "call"

    def _default_for(self, policy: Policy) -> Policy | None:
        """Return the default with the time limit that was set beside it; None when `policy` is not the default."""
        # Policies of jobs and steps are stored, so the default is known by its value.
        beside = {"attempt_timeout": policy.attempt_timeout, "idempotent": policy.idempotent}
        if policy != DURABLE_DEFAULT.replace(**beside):
            return None
        if self._default is None:
            return policy
        chosen = self._default.replace(**{field: value for field, value in beside.items() if value is not None})
        write_stored_policy(chosen)
        return chosen


class PoliciesOfFlows:
    """One PolicyInForce for all flows that have the same default."""

    def __init__(self, defaults: DefaultPolicies) -> None:
        self._defaults = defaults
        self._for_all = PolicyInForce(defaults.for_all)
        self._is_one = not defaults.by_definition and not defaults.by_queue
        self._others: dict[tuple[str, int], PolicyInForce] = {}

    def for_flow(self, definition: str, queue: str) -> PolicyInForce:
        if self._is_one:
            return self._for_all
        policy, origin = self._defaults.of(definition, queue)
        if origin == "default":
            return self._for_all
        found = self._others.get((origin, id(policy)))
        if found is None:
            found = self._others[origin, id(policy)] = PolicyInForce(policy, origin)
        return found
