"""Decides, sans-IO and for every client library, which requests may be repeated and which responses are failures.

A request may be repeated if its method is idempotent (RFC 9110) or if it carries an Idempotency-Key. Any other request
is repeated only after a failure that occurred before it was sent. A body that can be read only once is sent only once.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar, Unpack

import msgspec

from redrive.calls.guarded_call import GuardedCall
from redrive.calls.idempotency_keys import current_keys
from redrive.calls.ownership_headers import ownership_headers
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
from redrive.failures.retries_inside import warn_of_retries_around
from redrive.policies.policy import Policy
from redrive.policies.report import Report
from redrive.resilience.dependencies import Dependency
from redrive.telemetry.stream import Listener

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""The idempotent methods (RFC 9110, section 9.2.2)."""

KEYED_METHODS = frozenset({"POST", "PATCH"})
"""The methods that get an Idempotency-Key if the server honours it."""

IDEMPOTENCY_KEY = "Idempotency-Key"

PER_HOST = "per-host"
"""A `dependency` setting: each host is a separate dependency."""

BUFFER_LIMIT = 1024 * 1024

LEAST_TIME = 0.001
"""The shortest timeout passed to a client: for sockets, 0 would mean non-blocking."""

NOT_IDEMPOTENT_ADVICE = (
    "check whether it took effect; to allow retries send an Idempotency-Key header that the server honours, "
    "or build the adapter with idempotency_keys=True, which adds one and keeps it on every attempt"
)

R = TypeVar("R")


class AdapterSettings(PolicySettings, total=False):
    """The settings of an adapter, including those of its policy."""

    operation: str
    """The name in logs and reports; by default method, host and path ("POST api.example.com/orders").

    Metrics omit the path by default, because every id in a path would create a time series.
    """
    dependency: str | Dependency | None
    """The dependency whose circuit and retry budget these requests share; "per-host" gives each host its own."""
    classifier: Classifier
    """Distinguishes transient failures from permanent ones."""
    statuses: Mapping[int, Category]
    """Overrides for the meaning of a status: {404: "transient"}."""
    idempotency_keys: bool
    """True: the server honours Idempotency-Key, so POST and PATCH get one that stays the same on every attempt."""
    independent: bool
    """True: retry even inside another guarded call, which otherwise owns the retries."""
    on_event: Listener | Iterable[Listener]
    """Hooks for the events of these requests."""
    buffer_limit: int
    """How many bytes of a response body are read inside the attempt; see `body_buffering`. 0: none."""
    ownership_headers: bool
    """True: send Redrive-Attempt and Redrive-Deadline, so that guarded code behind the server makes one attempt."""
    raise_on_failure: bool | None
    """Whether to raise the client library's status error when the retries end with a response.

    None: only inside another guarded call, which owns the retries and would take a returned response for a success. A
    call in another process is none: nothing here could catch the error for it.
    """


class ClientLibrary(msgspec.Struct, Generic[R], frozen=True, kw_only=True):
    """How to read responses of one HTTP client library, and the errors it raises."""

    status_of: Callable[[R], int]
    headers_of: Callable[[R], Mapping[str, str]]
    timeouts: tuple[type[Exception], ...]
    """The errors of the library's own timeouts."""
    attempt_timeout: type[AttemptTimeoutError]
    """A subclass of redrive's error that code written for the library catches too; so are the next two."""
    deadline_exceeded: type[DeadlineExceededError]
    circuit_open: type[CircuitOpenError]


class HttpGuard(Generic[R]):
    """The settings of one adapter, for all the requests it sends."""

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
        ownership_headers: bool = False,
        raise_on_failure: bool | None = None,
        **settings: Unpack[PolicySettings],
    ) -> None:
        self.client = client
        self.policy = policy_from(settings, policy)
        if idempotency_keys and self.policy.idempotent is False:
            raise ValueError("idempotency_keys=True and idempotent=False contradict each other; remove one of them")
        if statuses and classifier is not DEFAULT_CLASSIFIER:
            raise ValueError("statuses and classifier cannot be combined; write Classifier(rules, statuses=...)")
        if isinstance(buffer_limit, bool) or not isinstance(buffer_limit, int) or buffer_limit < 0:
            raise ValueError(f"buffer_limit: {buffer_limit!r} is not allowed; use a number of bytes, at least 0")
        if not isinstance(operation, str):
            raise TypeError(f"operation: {operation!r} is not allowed; use a name such as 'create order'")
        self.buffer_limit = buffer_limit
        self.sends_ownership = ownership_headers
        self.raise_on_failure = raise_on_failure
        # A name may be built from configuration, such as an address that contains a password.
        self._operation = redact(operation)
        self._dependency = redact(dependency) if isinstance(dependency, str) else dependency
        self._classifier = Classifier(statuses=statuses) if statuses else classifier
        self._adds_keys = idempotency_keys
        self._independent = independent
        self._on_event = as_hooks(on_event)
        self._matches = (self.policy.retry_on, *(rule.match for rule in self.policy.rules))
        # A response below 400 is a failure only if its status is named.
        self._matches_below_400 = tuple(Match(statuses=match.statuses) for match in self._matches if match.statuses)
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
        """Prepare one request. `host` and `path` must not contain secrets: no user, no password, no query.

        `content` distinguishes requests to one address. `idempotent` overrides the policy for this request.
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
        request = GuardedRequest(
            self,
            self._retrier(method, host, self.policy if idempotent else self._cautious_policy),
            self._operation or redact(f"{method} {host}{path}"),
            {} if new_key is None else {IDEMPOTENCY_KEY: new_key},
            replayable,
        )
        if self.policy.attempts != 1 and not request.call.single_shot:
            warn_of_retries_around(headers, request.call.operation)
        return request

    def refuses(self, response: R) -> bool:
        """Whether the response is a failure that the policy handles; any other response is returned to the caller."""
        status = self.client.status_of(response)
        failure = self._classifier.failure_of_status(status, None, 0.0)
        # A server may also ask for a retry after a status that is not retried otherwise.
        if failure.category == "transient" or (status >= 400 and self._describe(response, 0.0).category == "transient"):
            return True
        matches = self._matches if status >= 400 else self._matches_below_400
        return any(match.matched_by(failure) is not None for match in matches)

    def _describe(self, response: R, wall_now: float) -> Failure:
        return self._classifier.failure_of_status(
            self.client.status_of(response), self.client.headers_of(response), wall_now
        )

    def _retrier(self, method: str, host: str, policy: Policy) -> Retrier:
        # One per request: cheap compared to the request, and the host's dependency may have been evicted.
        return Retrier(
            policy,
            # The name in metrics; the call's own name includes the path.
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
    """One request and the guarded call that sends it."""

    __slots__ = ("_finished", "call", "guard", "new_headers", "raises")

    def __init__(
        self, guard: HttpGuard[R], retrier: Retrier, operation: str, new_headers: dict[str, str], replayable: bool
    ) -> None:
        self.guard = guard
        self.call = GuardedCall(retrier, operation, current_clock(), current_dice(), CURRENT.get())
        self.call.replayable = replayable
        self.new_headers = new_headers
        """The Idempotency-Key to add; empty if the request already has one, or needs none."""
        self.raises = False
        """True if the request ended with a response that must be raised as the library's status error."""
        self._finished = False

    def end_with_response(self) -> None:
        """Record that the retries ended with a response, and decide whether it must be raised."""
        choice = self.guard.raise_on_failure
        self.raises = self.call.nested if choice is None else choice

    def headers_of_attempt(self) -> dict[str, str]:
        """Return the headers to add to the attempt that begins now, in place of those of the attempt before."""
        return ownership_headers(self.time_left()) if self.guard.sends_ownership else {}

    @property
    def first_attempt(self) -> bool:
        return self.call.history.attempts == 1

    def time_left(self) -> float | None:
        """Return the seconds left to the attempt; None: no limit, or the call has ended."""
        if self._finished or self.call.attempt_until is None:
            return None
        return max(self.call.attempt_until - self.call.clock.monotonic(), LEAST_TIME)

    def check_time(self) -> None:
        """Raise if the attempt's time is up: needed where nothing can cancel the attempt."""
        left = self.time_left()
        if left is not None and left <= LEAST_TIME:
            raise self.call.cut_error()

    def finish(self) -> None:
        """End the call: the time limits no longer apply to what the caller does with the response."""
        self._finished = True
        # Tracebacks may keep this object alive: drop the references to their errors.
        del self.call


def with_http_advice(report: Report) -> Report:
    """Return the report with a next step that fits HTTP requests."""
    if report.gave_up.kind == "not_idempotent":
        return msgspec.structs.replace(report, next_step=NOT_IDEMPOTENT_ADVICE)
    return report
