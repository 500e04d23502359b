"""How each system guards one call: three attempts, connection errors retried, and no waits in the failing case.

Each function imports its own library, so that measuring one system never loads another.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[], Any]
AsyncWork = Callable[[], Awaitable[Any]]

ATTEMPTS = 3


class Guards:
    """The guards of one system; None if it has no such guard."""

    def __init__(
        self,
        success: Callable[[Work], Work] | None,
        async_success: Callable[[AsyncWork], AsyncWork],
        failure: Callable[[Work], Work] | None,
    ) -> None:
        self.success = success
        self.async_success = async_success
        self.failure = failure


def redrive_guards() -> Guards:
    import redrive

    return Guards(
        redrive.retry,
        redrive.retry,
        redrive.retry(attempts=ATTEMPTS, retry_on=ConnectionError, backoff=0, jitter="none", floor=0),
    )


def tenacity_guards() -> Guards:
    import tenacity

    settings: dict[str, Any] = {
        "stop": tenacity.stop_after_attempt(ATTEMPTS),
        "retry": tenacity.retry_if_exception_type(ConnectionError),
        "reraise": True,
    }
    usual = tenacity.retry(wait=tenacity.wait_exponential_jitter(0.5), **settings)
    return Guards(usual, usual, tenacity.retry(wait=tenacity.wait_none(), **settings))


def stamina_guards() -> Guards:
    import stamina
    from stamina.instrumentation import set_on_retry_hooks

    # The other systems do not log in this comparison.
    set_on_retry_hooks([])
    usual = stamina.retry(on=ConnectionError, attempts=ATTEMPTS)
    at_once = stamina.retry(on=ConnectionError, attempts=ATTEMPTS, wait_initial=0, wait_max=0, wait_jitter=0)
    return Guards(usual, usual, at_once)


def backoff_guards() -> Guards:
    import backoff

    usual = backoff.on_exception(backoff.expo, ConnectionError, max_tries=ATTEMPTS, logger=None)
    at_once = backoff.on_exception(
        backoff.constant, ConnectionError, max_tries=ATTEMPTS, interval=0, jitter=None, logger=None
    )
    return Guards(usual, usual, at_once)


def redress_guards() -> Guards:
    import redress

    usual = redress.retry(max_attempts=ATTEMPTS)
    return Guards(usual, usual, redress.retry(max_attempts=ATTEMPTS, strategy=_no_wait))


def _no_wait(context: Any) -> float:
    return 0.0


def hyx_guards() -> Guards:
    from hyx.retry import retry

    return Guards(None, retry(on=ConnectionError, attempts=ATTEMPTS), None)


SYSTEMS: dict[str, Callable[[], Guards]] = {
    "redrive": redrive_guards,
    "tenacity": tenacity_guards,
    "stamina": stamina_guards,
    "backoff": backoff_guards,
    "redress": redress_guards,
    "hyx": hyx_guards,
}
