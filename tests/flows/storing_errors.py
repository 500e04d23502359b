"""Send an exception through the store."""

from collections.abc import Callable
from typing import Any

import msgspec

from redrive.flows.errors.stored_error import StoredError, rebuild_error, store_error


def raised(function: Callable[..., Any], *args: Any, **kwargs: Any) -> BaseException:
    try:
        function(*args, **kwargs)
    except BaseException as error:
        return error
    raise AssertionError("it did not fail")


def through_the_store(error: BaseException) -> BaseException:
    stored = store_error(error)
    text = msgspec.json.encode(stored)
    read = msgspec.json.decode(text, type=StoredError)
    assert read == stored
    rebuilt = rebuild_error(read)
    assert store_error(rebuilt) == stored, "live and replayed are the same"
    return rebuilt


class NetworkError(Exception):
    """What a user writes."""
