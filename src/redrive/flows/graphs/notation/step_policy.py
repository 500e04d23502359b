"""Read the retry policy of a step: `work_config`, `retry` or `policy`, with `timeout` and `idempotent`."""

from typing import Any

import msgspec

from redrive.errors import NotationError
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.stored_policy import write_stored_policy
from redrive.notation.fields import Fields
from redrive.notation.formats import native, template, work_config
from redrive.notation.place import Place
from redrive.notation.read import read_policy
from redrive.policies.policy import Policy

POLICY_KEYS = ("work_config", "retry", "policy")


def read_step_policy(fields: Fields, problems: Problems, default: Policy) -> msgspec.Raw:
    policy = default
    given = [key for key in POLICY_KEYS if key in fields]
    if len(given) > 1:
        problem = f"{' and '.join(given)} are given"
        problems.add(fields.refuse(given[1], "one of work_config, retry and policy", problem))
    for key in given:
        with problems:
            policy = _read(key, fields.data[key], fields.place.at(key))
    with problems:
        timeout = fields.duration("timeout", None, zero=False)
        policy = policy if timeout is None else policy.replace(attempt_timeout=timeout)
    with problems:
        idempotent = fields.flag("idempotent", None)
        policy = policy if idempotent is None else policy.replace(idempotent=idempotent)
    return write_stored_policy(policy)


def _read(key: str, value: Any, place: Place) -> Policy:
    if key == "work_config":
        return work_config.read(value, place).policy
    if key == "retry":
        return template.read(value, place).policy
    if not isinstance(value, str):
        return native.read(value, place).policy
    try:
        return read_policy(value, "brackets").policy
    except NotationError as error:
        raise place.refuse(value, error.problem, error.allowed) from None
