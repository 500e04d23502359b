"""Ask a classifier about an error, and check what holds for every answer."""

import httpx

from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Failure
from redrive.failures.matching import lineage

NOW = 1_800_000_000.0


class Odd(Exception):
    """Nobody knows it."""


def failure_of(error: BaseException, classifier: Classifier = DEFAULT_CLASSIFIER, timed_out: bool = False) -> Failure:
    failure = classifier.failure_of(error, NOW, timed_out)
    assert failure.error is error
    assert failure.lineage == lineage(type(error))
    assert failure.reason
    return failure


def answered(status: int, **headers: str) -> httpx.HTTPStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = httpx.Request("GET", "https://bob:hunter2@api.example.com/x?token=sesame")
    return httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status, headers=named))
