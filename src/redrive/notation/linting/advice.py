"""Advice on what to write instead, in the syntax of each notation."""

from collections.abc import Mapping

DIALECTS: Mapping[str, Mapping[str, str]] = {
    "temporal_python": {
        "attempts": "maximum_attempts",
        "backoff": "initial_interval",
        "max_wait": "maximum_interval",
        "never_on": "non_retryable_error_types",
    },
    "celery_retry": {"backoff": "countdown", "jitter": "countdown", "max_wait": "countdown", "retry_on": "except"},
}
"""Dialect of a notation -> policy field -> its key, where the dialect has its own."""

_CONVERT = "{notation} cannot express it: convert it to native (redrive policy convert --to native) and write {native}"

_ADVICE: dict[str, dict[str, str]] = {
    "jitter": {
        "native": "jitter: full",
        "brackets": "jitter: full, in the bracket",
        "stage": 'jitter_strategy="full"',
        "step_functions": '"JitterStrategy": "FULL"',
        "tenacity": "wait=wait_random_exponential(...) or wait_exponential_jitter(...)",
        "stamina": "wait_jitter=1.0",
        "backoff": "jitter=backoff.full_jitter",
        "celery": "retry_backoff=True, which brings jitter, and leave retry_jitter on",
        "celery_retry": "countdown=random.uniform(0, ...), with the wait as its upper end",
    },
    "bound": {
        "native": "attempts: 10, or deadline: 10m",
        "work_config": '"max_retries": 9',
        "template": "max_attempts: 10",
        "brackets": "retry: 9, or add [deadline: 10m]",
        "stage": "max_attempts=10",
        "temporal": '"maximumAttempts": 10, or set a schedule-to-close timeout where it is used',
        "temporal_python": "maximum_attempts=10, or schedule_to_close_timeout=... where the activity is called",
        "step_functions": '"MaxAttempts": 9',
        "tenacity": "stop=stop_after_attempt(10) | stop_before_delay(600)",
        "stamina": "attempts=10, timeout=600",
        "backoff": "max_tries=10, max_time=600",
        "celery": "max_retries=9",
    },
    "deadline": {
        "native": "deadline: 10m",
        "brackets": "[deadline: 10m]",
        "tenacity": "stop=... | stop_before_delay(600)",
        "stamina": "timeout=600",
        "backoff": "max_time=600",
        "temporal": "a schedule-to-close timeout where it is used",
        "temporal_python": "schedule_to_close_timeout=... where the activity is called",
    },
    "backoff": {
        "native": "backoff: exponential 500ms",
        "work_config": '"backoff": 500',
        "template": "backoff: exponential and backoff_base_ms: 500",
        "brackets": "backoff: 500ms",
        "stage": "base_delay_ms=500",
        "temporal": '"initialInterval": "1s"',
        "temporal_python": "initial_interval=timedelta(seconds=1)",
        "tenacity": "wait=wait_random_exponential(multiplier=0.5, max=30)",
        "stamina": "wait_initial=0.5",
        "backoff": "backoff.expo with factor=0.5",
        "celery": "retry_backoff=True",
        "celery_retry": "countdown=2 ** self.request.retries",
    },
    "max_wait": {
        "native": "max_wait: 30s",
        "work_config": '"max_backoff": 30000',
        "template": "max_backoff_ms: 30000",
        "brackets": "max_backoff: 30s",
        "stage": "max_delay_ms=30000",
        "temporal": '"maximumInterval": "30s"',
        "temporal_python": "maximum_interval=timedelta(seconds=30)",
        "step_functions": '"MaxDelaySeconds": 30',
        "tenacity": "max=30 in the wait",
        "stamina": "wait_max=30",
        "backoff": "max_value=30",
        "celery": "retry_backoff_max=30",
        "celery_retry": "countdown=min(30, ...)",
    },
    "retry_on": {
        "native": "retry_on: [transient]",
        "brackets": "transient -> before retry",
        "stage": "retryable_errors with only transient errors",
        "tenacity": "retry=retry_if_exception_type(...) with only transient errors",
        "backoff": "only transient errors as the exception",
        "celery": "autoretry_for with only transient errors",
        "celery_retry": "except with only transient errors",
        "stamina": "on= with only transient errors",
        "temporal": "nonRetryableErrorTypes with the errors that no retry will cure",
        "temporal_python": "non_retryable_error_types with the errors that no retry will cure",
    },
    "idempotent": {"native": "idempotent: true if repeating the work is harmless", "brackets": "[idempotent: true]"},
}


def advice_on(about: str, notation: str, dialect: str = "") -> str:
    """Return "write ..." in the syntax of the notation, or in redrive's own when the notation cannot express it."""
    advice = _ADVICE[about]
    if dialect in advice:
        return f"write {advice[dialect]}"
    notation = "native" if notation == "native_json" else notation
    if notation in advice:
        return f"write {advice[notation]}"
    return _CONVERT.format(notation=notation, native=advice["native"])
