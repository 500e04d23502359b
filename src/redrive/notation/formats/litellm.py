"""litellm's retry settings: arguments of `completion` or `Router`, or a proxy's config with its sections.

`num_retries` counts retries, 2 by default; `retry_policy` has a count for each class of error; `timeout` limits one
attempt. litellm waits 0.5 s, doubled each time up to 8 s, plus up to 0.75 s, and obeys Retry-After up to a minute.
"""

from collections.abc import Mapping
from typing import Any

from redrive.failures.matching import NOTHING, TRANSIENT, as_match
from redrive.notation.fields import Fields
from redrive.notation.place import Place
from redrive.notation.reading import NamedWarning, Reading
from redrive.policies.backoff import Backoff
from redrive.policies.jitter import Jitter
from redrive.policies.policy import Rule

NAME = "litellm"
SECTIONS = ("litellm_settings", "router_settings")
"""Where a proxy's config has the settings; those of the router come first."""
OWN_KEYS = ("num_retries", "max_retries", "retry_policy", "retry_after", "retry_strategy", "timeout", "request_timeout")
BESIDE = {
    "fallbacks": "name the models in order: redrive.integrations.llm.Guard(first, second)",
    "context_window_fallbacks": "name the models in order: redrive.integrations.llm.Guard(first, second)",
    "content_policy_fallbacks": "name the models in order: redrive.integrations.llm.Guard(first, second)",
    "allowed_fails": "use a circuit: redrive.define_dependency(name, circuit=CircuitSettings(failures=...))",
    "cooldown_time": "use a circuit: redrive.define_dependency(name, circuit=CircuitSettings(cooldown=...))",
    "model_group_retry_policy": "give each model its policy: redrive.integrations.llm.Model(client, name, policy=...)",
}
KEYS = (*OWN_KEYS, *BESIDE, *SECTIONS, "model_list", "general_settings", "environment_variables")
IDENTIFIED_BY = ("num_retries", *SECTIONS)
CALLS = ("litellm.completion", "litellm.acompletion", "litellm.Router", "Router")
SPELLING = {"attempts": "num_retries", "attempt_timeout": "timeout", "backoff": "retry_after", "rules": "retry_policy"}

# In the order in which litellm looks: the first class that an error has decides.
_CLASSES = {
    "AuthenticationErrorRetries": ("AuthenticationError",),
    "TimeoutErrorRetries": ("Timeout", "APITimeoutError"),
    "RateLimitErrorRetries": ("RateLimitError",),
    "ContentPolicyViolationErrorRetries": ("ContentPolicyViolationError",),
    "BadRequestErrorRetries": ("BadRequestError",),
    "NotFoundErrorRetries": ("NotFoundError",),
    "InternalServerErrorRetries": ("InternalServerError",),
}
_FIRST_WAIT, _LONGEST_WAIT, _JITTER, _LONGEST_ASKED = 0.5, 8.0, 0.75, 60.0
_DEFAULT_RETRIES = 2
_CONSTANT = "constant_retry"


def read(data: Any, place: Place) -> Reading:
    """Read the settings, wherever in a config they are."""
    settings, place = _settings(data, place)
    fields = Fields({key: value for key, value in settings.items() if key in KEYS}, place, KEYS)
    named = "num_retries" if "num_retries" in fields or "max_retries" not in fields else "max_retries"
    timeout = "timeout" if "timeout" in fields else "request_timeout"
    retries = fields.whole(named, _DEFAULT_RETRIES, least=0)
    rules = _rules(fields)
    if rules:
        rules = (*rules, Rule(match=TRANSIENT, retries=retries))
    constant = fields.choice("retry_strategy", False, {"exponential_backoff_retry": False, _CONSTANT: True})
    # The least wait that the router is told to keep.
    first = max(_FIRST_WAIT, fields.duration("retry_after", 0.0))
    policy = fields.policy(
        {**SPELLING, "attempts": named, "attempt_timeout": timeout},
        attempts=1 + max([retries, *(rule.retries or 0 for rule in rules)]),
        backoff=Backoff("constant" if constant else "exponential", first),
        jitter=Jitter("additive", _JITTER),
        max_wait=max(_LONGEST_WAIT, first),
        max_retry_after=_LONGEST_ASKED,
        deadline=None,
        attempt_timeout=fields.duration(timeout, None, zero=False),
        retry_on=NOTHING if rules else TRANSIENT,
        rules=rules,
    )
    return fields.reading(
        NAME, policy, {**SPELLING, "attempts": named, "attempt_timeout": timeout}, _warnings(fields, retries)
    )


def _settings(data: Any, place: Place) -> tuple[Mapping[str, Any], Place]:
    """Return the settings of a config: one section's, those of all sections together, or the mapping itself."""
    if not isinstance(data, Mapping):
        raise place.refuse(data, "not allowed", f"a mapping with keys such as {', '.join(OWN_KEYS)}")
    sections = [key for key in SECTIONS if isinstance(data.get(key), Mapping)]
    if not sections:
        return data, place
    if len(sections) == 1:
        return data[sections[0]], place.at(sections[0])
    return {**data[sections[0]], **data[sections[1]]}, place


def _rules(fields: Fields) -> tuple[Rule, ...]:
    if "retry_policy" not in fields:
        return ()
    counts = Fields(fields.data["retry_policy"], fields.place.at("retry_policy"), tuple(_CLASSES))
    return tuple(
        Rule(match=as_match(names), retries=counts.whole(key, 0, least=0))
        for key, names in _CLASSES.items()
        if key in counts and counts.data[key] is not None
    )


def _warnings(fields: Fields, retries: int) -> list[NamedWarning]:
    beside = [
        fields.warning("not-a-policy", key, f"{key} is not part of a policy; {instead}")
        for key, instead in BESIDE.items()
        if key in fields
    ]
    if retries:
        text = "litellm has no deadline over all attempts; set one, or all attempts together may take very long"
        beside.append(fields.warning("no-deadline", "num_retries", text))
    return beside
