"""What the HTTP adapters share, sans-IO: which requests may be repeated, which answers are failures, in whose words.

A request may be repeated when its method is idempotent (RFC 9110) or when it carries an Idempotency-Key. Any other
is repeated only after failures that came before the server did anything. A body that cannot be read a second time is
sent once.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar, Unpack

import msgspec

from redrive.calls.guarded_call import GuardedCall
from redrive.calls.idempotency_keys import current_keys
from redrive.calls.retrier import Retrier, as_hooks
from redrive.calls.scope import CURRENT
from redrive.calls.settings import PolicySettings, policy_from
from redrive.determinism.clock import current_clock
from redrive.determinism.dice import current_dice
from redrive.determinism.ids import new_id
from redrive.errors import AttemptTimeoutError, CircuitOpenError, DeadlineExceededError
from redrive.failures.classifier import DEFAULT_CLASSIFIER, Classifier
from redrive.failures.failure import Category, Failure
from redrive.failures.matching import Match
from redrive.failures.redaction import redact
from redrive.policies.policy import Policy
from redrive.policies.report import Report
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Doing these twice is the same as doing them once (RFC 9110, section 9.2.2)."""

KEYED_METHODS = frozenset({"POST", "PATCH"})
"""The methods that get a key where the server honours keys."""

IDEMPOTENCY_KEY = "Idempotency-Key"

PER_HOST = "per-host"
"""As `dependency`: each host is a dependency of its own."""

BUFFER_LIMIT = 1024 * 1024

LEAST_TIME = 0.001
"""Less than this is no time left. Sockets take 0 for "do not wait at all"; this still is a time limit."""

PROPOSAL = (
    "check whether it took effect; to allow retries send an Idempotency-Key header that the server honours, "
    "or build the adapter with idempotency_keys=True, which adds one and keeps it on every attempt"
)

R = TypeVar("R")


class AdapterSettings(PolicySettings, total=False):
    """What an adapter is told beside its policy; the settings of the policy may be written here too."""

    operation: str
    """The name in logs and reports; by default method, host and path ("POST api.example.com/orders").

    Metrics have no path by default: each id in a path would be a time series of its own.
    """
    dependency: str | Dependency | None
    """Whose circuit and retry budget these requests share; "per-host" gives each host its own."""
    classifier: Classifier
    """Tells transient from permanent failures."""
    statuses: Mapping[int, Category]
    """What a status means here, over the table: {404: "transient"}."""
    idempotency_keys: bool
    """True: the server honours Idempotency-Key, so POST and PATCH get one, the same on every attempt."""
    independent: bool
    """True: retry even inside another guarded attempt, which otherwise owns the retries."""
    on_event: Listener | Iterable[Listener]
    """Hooks for the events of these requests."""
    buffer_limit: int
    """How many bytes of an answer are read inside the attempt; see `body_buffering`. 0: none."""
    raise_on_failure: bool | None
    """Whether the client library's status error is raised when the retries end on a response. None: only inside
    another guarded call, which owns the retries and would take a returned response for a success."""


class ClientLibrary(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """How one HTTP client library says things."""

    status_of: Callable[[R], int]
    headers_of: Callable[[R], Mapping[str, str]]
    timeouts: tuple[type[Exception], ...]
    """What it raises when one of its timeouts strikes."""
    attempt_timeout: type[AttemptTimeoutError]
    """redrive's own errors, each as a class that the users of the library catch too."""
    deadline_exceeded: type[DeadlineExceededError]
    circuit_open: type[CircuitOpenError]


class HttpGuard(Generic[R]):
    """The policy of an adapter and its rules, for all the requests it sends."""

    def __init__(
        self,
        client: ClientLibrary[R],
        policy: Policy | None = None,
        /,
        *,
        operation: str = "",
        dependency: str | Dependency | None = None,
        classifier: Classifier = DEFAULT_CLASSIFIER,
        statuses: Mapping[int, Category] = MappingProxyType({}),
        idempotency_keys: bool = False,
        independent: bool = False,
        on_event: Listener | Iterable[Listener] = (),
        buffer_limit: int = BUFFER_LIMIT,
        raise_on_failure: bool | None = None,
        **settings: Unpack[PolicySettings],
    ) -> None:
        self.client = client
        self.policy = policy_from(settings, policy)
        if idempotency_keys and self.policy.idempotent is False:
            raise ValueError("idempotency_keys=True makes requests safe to repeat, idempotent=False says they are not")
        if statuses and classifier is not DEFAULT_CLASSIFIER:
            raise ValueError("statuses: give them to the classifier, Classifier(rules, statuses=...)")
        if isinstance(buffer_limit, bool) or not isinstance(buffer_limit, int) or buffer_limit < 0:
            raise ValueError(f"buffer_limit: {buffer_limit!r} is not allowed; use a number of bytes from 0")
        if not isinstance(operation, str):
            raise TypeError(f"operation: {operation!r} is not allowed; use a name such as 'create order'")
        self.buffer_limit = buffer_limit
        self.raise_on_failure = raise_on_failure
        # Names may be made of what was configured, an address with a password say.
        self._operation = redact(operation)
        self._dependency = redact(dependency) if isinstance(dependency, str) else dependency
        self._classifier = Classifier(statuses=statuses) if statuses else classifier
        self._adds_keys = idempotency_keys
        self._independent = independent
        self._on_event = as_hooks(on_event)
        self._answers = (self.policy.retry_on, *(rule.match for rule in self.policy.rules))
        # An answer below 400 is a failure only where someone named its status.
        self._answers_by_status = tuple(Match(statuses=match.statuses) for match in self._answers if match.statuses)
        self._cautious_policy = self.policy.replace(idempotent=False)

    def begin(
        self,
        *,
        method: str,
        host: str,
        path: str,
        headers: Mapping[str, str],
        content: Hashable = None,
        replayable: bool = True,
        idempotent: bool | None = None,
    ) -> "GuardedRequest[R]":
        """Get one request ready. `host` and `path` hold no secrets: no user, no password, no query.

        `content` tells requests to one address apart. `idempotent` is what is known about this very request.
        """
        method = method.upper()
        key = headers.get(IDEMPOTENCY_KEY) or None
        new_key = None
        if key is None and self._adds_keys and method in KEYED_METHODS:
            keys = current_keys()
            key = new_key = new_id() if keys is None else keys.key_for(method, host + path, content)
        if idempotent is None:
            idempotent = self.policy.idempotent
        if idempotent is None:
            idempotent = method in IDEMPOTENT_METHODS or key is not None
        return GuardedRequest(
            self,
            self._retrier(method, host, self.policy if idempotent else self._cautious_policy),
            self._operation or redact(f"{method} {host}{path}"),
            new_key,
            replayable,
        )

    def refuses(self, response: R) -> bool:
        """Whether the response is a failure that the policy has an answer to; any other is the caller's to read."""
        status = self.client.status_of(response)
        failure = self._classifier.failure_of_status(status, None, 0.0)
        if failure.category == "transient":
            return True
        known = self._answers if status >= 400 else self._answers_by_status
        return any(match.matched_by(failure) is not None for match in known)

    def _describe(self, response: R, wall_now: float) -> Failure:
        return self._classifier.failure_of_status(
            self.client.status_of(response), self.client.headers_of(response), wall_now
        )

    def _retrier(self, method: str, host: str, policy: Policy) -> Retrier:
        # Made for each request: it is cheap beside a request, and a host's dependency may have been forgotten.
        return Retrier(
            policy,
            # What metrics show; the call itself is named with its path.
            operation=self._operation or f"{method} {host}",
            dependency=host if self._dependency == PER_HOST else self._dependency,
            classifier=self._classifier,
            retry_result=self.refuses,
            classify_result=self._describe,
            independent=self._independent,
            on_event=self._on_event,
        )

    def __repr__(self) -> str:
        about = f", dependency={self._dependency!r}" if self._dependency else ""
        return f"attempts={self.policy.attempts}{about}, idempotency_keys={self._adds_keys}"


class GuardedRequest(Generic[R]):
    """One request on its way through its attempts."""

    __slots__ = ("_over", "call", "guard", "new_key", "raises")

    def __init__(
        self, guard: HttpGuard[R], retrier: Retrier, operation: str, new_key: str | None, replayable: bool
    ) -> None:
        self.guard = guard
        self.call = GuardedCall(retrier, operation, current_clock(), current_dice(), CURRENT.get())
        self.call.replayable = replayable
        self.new_key = new_key
        """The key to put on the request; None when it has one already, or gets none."""
        self.raises = False
        """True once the request ended on a response that is to be raised as the library's status error."""
        self._over = False

    def ended_on_a_response(self) -> None:
        choice = self.guard.raise_on_failure
        self.raises = self.call.single_shot if choice is None else choice

    @property
    def first_attempt(self) -> bool:
        return self.call.history.attempts == 1

    def time_left(self) -> float | None:
        """Seconds until the attempt has to be over; None: no limit, or the call is over and the rest is the user's."""
        if self._over or self.call.attempt_until is None:
            return None
        return max(self.call.attempt_until - self.call.clock.monotonic(), LEAST_TIME)

    def check_time(self) -> None:
        """For attempts that nothing cuts from outside: end them once their time is up."""
        left = self.time_left()
        if left is not None and left <= LEAST_TIME:
            raise self.call.cut_error()

    def over(self) -> None:
        """No attempt follows; what the user does with the response takes as long as it takes."""
        self._over = True
        # The frames of a traceback keep this object: let go of what leads back to the errors.
        del self.call


def advice(report: Report) -> Report:
    """The report in the words of HTTP."""
    if report.gave_up.kind == "not_idempotent":
        return msgspec.structs.replace(report, next_step=PROPOSAL)
    return report
