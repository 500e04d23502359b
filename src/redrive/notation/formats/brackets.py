"""Bracket text: `[RateLimitError -> retry: 10, backoff: 1m] [retry: 3, backoff: 30s] [timeout: 2m]`.

A bracket with `retry` applies to the failures before its arrow, or to all failures without an arrow, and has its own
counter; the first bracket that matches applies. Brackets of settings (`timeout`, `deadline`, ...) apply to the whole
policy.
"""

from collections.abc import Mapping
from typing import Any

from redrive.errors import NotationError
from redrive.failures.matching import ANYTHING, NOTHING
from redrive.notation.errors import notation_error
from redrive.notation.failure_names import with_current_names
from redrive.notation.fields import DURATION_FORMS, Fields, positions_of, read_failures
from redrive.notation.formats.bracket_mistakes import corrected
from redrive.notation.formats.bracket_syntax import FAILURES, ROOT, parse_brackets
from redrive.notation.place import BEGIN, Place, Position
from redrive.notation.reading import NamedWarning, Reading
from redrive.notation.wait_text import BACKOFF_KINDS, LARGEST_FACTOR, LEAST_FACTOR, read_jitter
from redrive.policies.backoff import Backoff, BackoffKind
from redrive.policies.jitter import NO_JITTER
from redrive.policies.policy import DEFAULT_POLICY, Policy, Rule
from redrive.policies.preview import CUT_ATTEMPT

NAME = "brackets"
ANSWER_KEYS = ("retry", "backoff", "max_backoff", "jitter", "factor", *BACKOFF_KINDS)
"""Keys of a bracket that applies to failures."""
SETTINGS = {
    "timeout": "attempt_timeout",
    "deadline": "deadline",
    "attempts": "attempts",
    "timeout_growth": "timeout_growth",
    "timeout_retries": "timeout_retries",
    "max_retry_after": "max_retry_after",
    "floor": "floor",
    "never_on": "never_on",
    "idempotent": "idempotent",
}
"""Keys of a bracket of settings -> the policy's fields."""
SPELLING = {field: key for key, field in SETTINGS.items()} | {
    "jitter": "jitter",
    "backoff": "backoff",
    "max_wait": "max_backoff",
}

_NONE: Mapping[str, None] = {"none": None}
_NO_LIMIT: Mapping[int, None] = {-1: None}


def read_text(text: str, source: str = "<text>", begin: Position = BEGIN) -> Reading:
    """Read the policy from all brackets in a text; comments and an action call before them are skipped.

    `begin`: the position of the text in a longer one, such as a script. An error shows the right spelling if it can be
    guessed.
    """
    try:
        return _read(text, source, begin)
    except NotationError as error:
        instead = _right_spelling(text)
        if not instead:
            raise
        raise notation_error(
            f"{error.problem}; write {instead}",
            key=error.key,
            value=error.value,
            allowed=error.allowed,
            source=error.source,
            line=error.line,
            column=error.column,
            path=error.path,
            rule=error.rule,
        ) from None


def _right_spelling(text: str) -> str:
    instead = corrected(text, (*ANSWER_KEYS, *SETTINGS))
    try:
        return instead if instead and _read(instead, "<text>", BEGIN) else ""
    except NotationError:
        return ""


def _read(text: str, source: str, begin: Position) -> Reading:
    brackets, place = parse_brackets(text, source, begin)
    settings: dict[str, Fields] = {}
    answers: list[Fields] = []
    for index, bracket in enumerate(brackets):
        at = place.at(ROOT, index)
        if FAILURES in bracket or any(key in ANSWER_KEYS for key in bracket):
            answers.append(_answer_fields(bracket, at))
        else:
            _collect_settings(Fields(bracket, at, (*SETTINGS, *ANSWER_KEYS)), settings)
    warnings: list[NamedWarning] = []
    rules = [_read_answer(fields, "attempts" in settings, warnings) for fields in answers]
    policy = _policy(settings, rules, place)
    if policy.attempt_timeout is not None and not any(rule.match.matched_by(CUT_ATTEMPT) for rule in rules):
        problem = "no bracket retries an attempt that exceeds its timeout; name TimeoutError in one that should"
        if not rules:
            problem = (
                "no bracket says what is retried, so nothing is; only in a script do such brackets "
                "modify the action's own policy"
            )
        warnings.append(settings["timeout"].warning("timeout-not-retried", "timeout", problem))
    written = {SETTINGS[key]: fields.place.at(key).key for key, fields in settings.items()}
    written |= {f"rules[{index}]": fields.place.key for index, fields in enumerate(answers)}
    if len(answers) == 1:
        written |= {field: answers[0].place.at(SPELLING[field]).key for field in ("jitter", "backoff", "max_wait")}
    return Reading(
        policy=policy,
        notation=NAME,
        warnings=tuple(warnings),
        written=written,
        positions=positions_of(place, [path for path in place.positions if path]),
        source=place.source,
    )


def _answer_fields(bracket: dict[str, Any], place: Place) -> Fields:
    for key, value in bracket.items():
        if key in SETTINGS:
            raise place.at(key).refuse(
                value, f"needs a bracket of its own: [{key}: ...]", f"in this bracket {', '.join(ANSWER_KEYS)}"
            )
    return Fields(bracket, place, ANSWER_KEYS, internal=(FAILURES,))


def _collect_settings(fields: Fields, settings: dict[str, Fields]) -> None:
    for key in fields:
        if key in settings:
            raise fields.refuse(key, "each key once", f"duplicate key, first used in {settings[key].place.key}")
        settings[key] = fields


def _read_answer(fields: Fields, limited: bool, warnings: list[NamedWarning]) -> Rule:
    if not limited:
        fields.require("retry", "a number of retries after the first attempt, or -1 for no limit")
    base = fields.duration("backoff", 0.0)
    kind = _read_kind(fields)
    if "factor" in fields and kind != "exponential":
        raise fields.refuse("factor", "factor in an exponential bracket only", f"{kind} backoff has no factor")
    warnings += fields.zero_wait("backoff", base, DEFAULT_POLICY.floor, fields.data.get("retry") != 0)
    match = ANYTHING
    if FAILURES in fields:
        place = fields.place.at(FAILURES)
        match = with_current_names(read_failures(fields.data[FAILURES], place))
        if not match:
            raise place.refuse(
                [], "no failure before the arrow", "names such as NetworkError or (ValueError, KeyError)"
            )
    return Rule(
        match=match,
        retries=fields.whole("retry", None, least=0, special=_NO_LIMIT),
        backoff=Backoff(kind, base, fields.number("factor", 2.0, least=LEAST_FACTOR, most=LARGEST_FACTOR)),
        jitter=read_jitter(fields, "jitter"),
        max_wait=fields.duration("max_backoff", None, zero=False),
    )


def _read_kind(fields: Fields) -> BackoffKind:
    named = [key for key in fields if key in BACKOFF_KINDS]
    for key in named:
        if fields.data[key] is not True:
            raise fields.refuse(key, f"{key} without a value; its duration goes to backoff: {DURATION_FORMS}")
    if len(named) > 1:
        raise fields.refuse(named[1], f"one of {', '.join(BACKOFF_KINDS)}", f"{named[0]} is set already")
    return BACKOFF_KINDS[named[0]] if named else "exponential"


def _policy(settings: Mapping[str, Fields], rules: list[Rule], place: Place) -> Policy:
    nothing = Fields({}, place, ())

    def of(key: str) -> Fields:
        return settings.get(key, nothing)

    default = DEFAULT_POLICY
    never_on = of("never_on")
    return Policy(
        attempts=of("attempts").whole("attempts", None, least=1, zero_rule="RD006"),
        backoff=Backoff("exponential", 0.0),
        jitter=NO_JITTER,
        max_wait=None,
        deadline=of("deadline").duration("deadline", None, zero=False, special=_NONE),
        attempt_timeout=of("timeout").duration("timeout", None, zero=False),
        timeout_growth=of("timeout_growth").number("timeout_growth", default.timeout_growth, least=1, most=10),
        timeout_retries=of("timeout_retries").whole("timeout_retries", None, least=0, special=_NO_LIMIT),
        max_retry_after=of("max_retry_after").duration("max_retry_after", default.max_retry_after, special=_NONE),
        floor=of("floor").duration("floor", default.floor),
        retry_on=NOTHING,
        never_on=with_current_names(never_on.failures("never_on", NOTHING)),
        rules=tuple(rules),
        idempotent=of("idempotent").flag("idempotent", None),
    )
