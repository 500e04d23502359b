"""redrive's own notation: the fields of a policy, as YAML or JSON."""

import json
from collections.abc import Mapping
from typing import Any

from redrive.errors import DurationError, PolicyError
from redrive.failures.matching import NOTHING, Match, as_match, match_as_texts, written_name
from redrive.notation.durations import write_duration
from redrive.notation.errors import notation_error
from redrive.notation.failure_names import with_current_names
from redrive.notation.fields import MOST_RULES, NOT_ALLOWED, Fields
from redrive.notation.place import Place
from redrive.notation.reading import Reading
from redrive.notation.wait_text import read_backoff, read_jitter, write_backoff, write_jitter
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule

NAME = "native"
KEYS = (
    "attempts",
    "backoff",
    "jitter",
    "max_wait",
    "deadline",
    "attempt_timeout",
    "timeout_growth",
    "timeout_retries",
    "max_retry_after",
    "floor",
    "retry_on",
    "never_on",
    "rules",
    "idempotent",
)
SPELLING = {key: key for key in KEYS}
RULE_KEYS = ("match", "retries", "backoff", "jitter", "max_wait")

NO_LIMIT: Mapping[str, None] = {"unlimited": None}
NONE: Mapping[str, None] = {"none": None}

# Always written, so that readers need not know the defaults.
_ALWAYS_WRITTEN = ("attempts", "backoff", "jitter", "max_wait", "deadline", "retry_on")


def read(data: Any, place: Place) -> Reading:
    """Read a policy; missing keys have the defaults of `Policy`."""
    fields = Fields(data, place, KEYS)
    default = DEFAULT_POLICY
    policy = fields.policy(
        SPELLING,
        attempts=fields.whole("attempts", default.attempts, least=1, special=NO_LIMIT, zero_rule="RD006"),
        backoff=read_backoff(fields, "backoff") or default.backoff,
        jitter=read_jitter(fields, "jitter") or default.jitter,
        max_wait=fields.duration("max_wait", default.max_wait, zero=False, special=NONE),
        deadline=fields.duration("deadline", default.deadline, zero=False, special=NONE),
        attempt_timeout=fields.duration("attempt_timeout", default.attempt_timeout, zero=False, special=NONE),
        timeout_growth=fields.number("timeout_growth", default.timeout_growth, least=1, most=10),
        timeout_retries=fields.whole("timeout_retries", default.timeout_retries, least=0, special=NO_LIMIT),
        max_retry_after=fields.duration("max_retry_after", default.max_retry_after, special=NONE),
        floor=fields.duration("floor", default.floor),
        retry_on=with_current_names(fields.failures("retry_on", default.retry_on)),
        never_on=with_current_names(fields.failures("never_on", default.never_on)),
        rules=_read_rules(fields),
        idempotent=fields.flag("idempotent", default.idempotent),
    )
    return fields.reading(NAME, policy, SPELLING)


def _read_rules(fields: Fields) -> tuple[Rule, ...]:
    written = fields.data.get("rules", [])
    if not isinstance(written, list | tuple):
        raise fields.refuse("rules", f"a list of mappings with the keys {', '.join(RULE_KEYS)}")
    if len(written) > MOST_RULES:
        raise fields.refuse("rules", f"at most {MOST_RULES} rules", f"{len(written)} rules")
    return tuple(_read_rule(one, fields.place.at("rules", index)) for index, one in enumerate(written))


def _read_rule(data: Any, place: Place) -> Rule:
    fields = Fields(data, place, RULE_KEYS)
    fields.require("match", "the failures this rule applies to, such as [ConnectionError, status:429]")
    match = with_current_names(fields.failures("match", NOTHING))
    if not match:
        raise fields.refuse("match", "at least one failure")
    try:
        return Rule(
            match=match,
            retries=fields.whole("retries", None, least=0, special=NO_LIMIT),
            backoff=read_backoff(fields, "backoff"),
            jitter=read_jitter(fields, "jitter"),
            max_wait=fields.duration("max_wait", None, zero=False),
        )
    except PolicyError as error:
        raise place.at(error.field).refuse(error.value, NOT_ALLOWED, error.allowed) from None


def as_data(policy: Policy) -> dict[str, Any]:
    """Return the policy as plain data that `read` accepts; classes are written by name."""
    try:
        return _fields_as_data(policy)
    except DurationError as error:
        raise notation_error(f"cannot be written: {error}", allowed="durations from 1 ns") from None


def _fields_as_data(policy: Policy) -> dict[str, Any]:
    written: dict[str, Any] = {
        "attempts": "unlimited" if policy.attempts is None else policy.attempts,
        "backoff": write_backoff(policy.backoff, "backoff"),
        "jitter": write_jitter(policy.jitter, "jitter"),
        "max_wait": _duration_or_none(policy.max_wait),
        "deadline": _duration_or_none(policy.deadline),
        "attempt_timeout": _duration_or_none(policy.attempt_timeout),
        "timeout_growth": policy.timeout_growth,
        "timeout_retries": "unlimited" if policy.timeout_retries is None else policy.timeout_retries,
        "max_retry_after": _duration_or_none(policy.max_retry_after),
        "floor": write_duration(policy.floor),
        "retry_on": failures_as_texts(policy.retry_on, "retry_on"),
        "never_on": failures_as_texts(policy.never_on, "never_on"),
        "rules": [_rule_as_data(rule, f"rules[{index}]") for index, rule in enumerate(policy.rules)],
        "idempotent": policy.idempotent,
    }
    default = DEFAULT_POLICY
    return {
        key: written[key] for key in KEYS if key in _ALWAYS_WRITTEN or getattr(policy, key) != getattr(default, key)
    }


def write_yaml(policy: Policy) -> str:
    # Imported here because users of the JSON form do not need it.
    import yaml

    text: str = yaml.safe_dump(as_data(policy), sort_keys=False, default_flow_style=None, width=120)
    return text


def write_json(policy: Policy) -> str:
    return json.dumps(as_data(policy), indent=2, ensure_ascii=False) + "\n"


def _rule_as_data(rule: Rule, key: str) -> dict[str, Any]:
    data: dict[str, Any] = {"match": failures_as_texts(rule.match, f"{key}.match")}
    if rule.retries is not None:
        data["retries"] = rule.retries
    if rule.backoff is not None:
        data["backoff"] = write_backoff(rule.backoff, f"{key}.backoff")
    if rule.jitter is not None:
        data["jitter"] = write_jitter(rule.jitter, f"{key}.jitter")
    if rule.max_wait is not None:
        data["max_wait"] = write_duration(rule.max_wait)
    return data


def failures_as_texts(match: Match, key: str) -> list[str]:
    """Return names, statuses and categories that read back to the same failures."""
    named = Match(
        categories=match.categories,
        names=(*(written_name(kind) for kind in match.types), *match.names),
        statuses=match.statuses,
        predicates=match.predicates,
    )
    try:
        texts = match_as_texts(named)
        readable = as_match(texts) == named and not {"none", "nothing"} & set(texts)
    except ValueError:
        readable, texts = False, []
    if not readable:
        what = "a predicate" if match.predicates else texts or list(match.names)
        raise notation_error("cannot be written", key=key, value=what, allowed="class names, statuses, categories")
    return texts


def _duration_or_none(seconds: float | None) -> str:
    return "none" if seconds is None else write_duration(seconds)
