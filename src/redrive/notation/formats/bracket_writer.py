"""Writes policies as bracket text."""

from redrive.failures.matching import ANYTHING, Match
from redrive.notation.durations import write_duration
from redrive.notation.formats.native import failures_as_texts
from redrive.notation.meaning import Answer, Meaning
from redrive.notation.wait_text import write_jitter, write_number
from redrive.policies.policy import DEFAULT_POLICY


def write(meaning: Meaning) -> str:
    """Write one bracket per answer, then the settings; on one line if it is short."""
    brackets = [_answer(answer, meaning, index) for index, answer in enumerate(meaning.answers)] or ["[retry: 0]"]
    settings = _settings(meaning)
    if "timeout" in settings:
        brackets.append(f"[timeout: {settings.pop('timeout')}]")
    if settings:
        brackets.append(f"[{', '.join(f'{key}: {value}' for key, value in settings.items())}]")
    line = " ".join(brackets)
    return f"{line}\n" if len(line) <= 120 else "\n".join(brackets) + "\n"


def _answer(answer: Answer, meaning: Meaning, index: int) -> str:
    entries: list[str] = []
    retries = answer.retries
    if len(meaning.answers) == 1 and meaning.attempts is not None:
        retries = meaning.attempts - 1
    if retries is not None:
        entries.append(f"retry: {retries}")
    elif meaning.attempts is None or answer.backoff.base == 0:
        entries.append("retry: -1")
    if answer.backoff.base > 0:
        entries.append(f"backoff: {write_duration(answer.backoff.base)}")
        if answer.backoff.kind != "exponential":
            entries.append(answer.backoff.kind)
        elif answer.backoff.factor != 2:
            entries.append(f"factor: {write_number(answer.backoff.factor)}")
    if answer.max_wait is not None:
        entries.append(f"max_backoff: {write_duration(answer.max_wait)}")
    if answer.jitter.kind != "none":
        entries.append(f"jitter: {write_jitter(answer.jitter, f'rules[{index}].jitter')}")
    arrow = "" if answer.match == ANYTHING else f"{_failures(answer.match, f'rules[{index}].match')} -> "
    return f"[{arrow}{', '.join(entries)}]"


def _settings(meaning: Meaning) -> dict[str, str]:
    default = DEFAULT_POLICY
    settings: dict[str, str] = {}
    if meaning.attempt_timeout is not None:
        settings["timeout"] = write_duration(meaning.attempt_timeout)
    if meaning.attempts is not None and len(meaning.answers) > 1:
        settings["attempts"] = str(meaning.attempts)
    if meaning.deadline is not None:
        settings["deadline"] = write_duration(meaning.deadline)
    if meaning.timeout_growth != default.timeout_growth:
        settings["timeout_growth"] = write_number(meaning.timeout_growth)
    if meaning.timeout_retries is not None:
        settings["timeout_retries"] = str(meaning.timeout_retries)
    if meaning.max_retry_after is None:
        settings["max_retry_after"] = "none"
    elif meaning.max_retry_after != default.max_retry_after:
        settings["max_retry_after"] = write_duration(meaning.max_retry_after)
    if meaning.floor != default.floor:
        settings["floor"] = write_duration(meaning.floor)
    if meaning.never_on:
        # In parentheses even when it is one name, because a bare word could be read as a number or as null.
        settings["never_on"] = f"({', '.join(failures_as_texts(meaning.never_on, 'never_on'))})"
    if meaning.idempotent is not None:
        settings["idempotent"] = "true" if meaning.idempotent else "false"
    return settings


def _failures(match: Match, key: str) -> str:
    texts = failures_as_texts(match, key)
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
