"""Make one attempt at an HTTP step: send the request and read the answer."""

import io
from collections.abc import Callable

try:
    import aiohttp
except ImportError as error:
    raise ImportError("HTTP steps need aiohttp 3.12 or newer: pip install 'redrive[server]'") from error

from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from msgspec import structs
from yarl import URL

from redrive.calls.ownership_headers import DELIVERY_TOKEN
from redrive.determinism.clock import current_clock
from redrive.errors import AttemptTimeoutError
from redrive.failures.redaction import redact
from redrive.failures.secret_text import HIDDEN
from redrive.flows.graphs.spec import HttpHandler
from redrive.runners.attempt import Attempt, NotCalled
from redrive.runners.http.addresses import AddressRules, is_numeric_host
from redrive.runners.http.answers import Accepted, Answer, classifier_of, outcome_of
from redrive.runners.http.body import read_body
from redrive.runners.http.errors import AddressRefused, BadAnswer, BadRequest, HttpStepError, RefusedAnswer
from redrive.runners.http.request import CALLBACK, RECEIPT_TOKEN, headers_of, timeout_of
from redrive.runners.http.resolver import CheckedResolver
from redrive.runners.http.settings import HttpSettings
from redrive.runners.http.signing import Signer, message_id

# aiohttp warns about larger bytes, which it would write in one piece.
_MAX_BYTES_BODY = 1024 * 1024
# Many servers close idle connections after 5 s, and a request on a closing connection is a failed attempt.
_KEEPALIVE_SECONDS = 4.0


class HttpRunner:
    """Calls handlers. Attempts share the connections, which stay open between them."""

    def __init__(self, settings: HttpSettings, may_call: Callable[[], bool] = lambda: True) -> None:
        """may_call: asked right before each request is written; NotCalled when it is False."""
        self._request_class = _checked_request(may_call)
        self._settings = settings
        self._rules = AddressRules(settings.allow)
        self._signer = Signer(settings.signing)
        self._session: aiohttp.ClientSession | None = None

    async def call(self, handler: HttpHandler, attempt: Attempt, body: str) -> str | Accepted:
        """Return the outputs as JSON, or Accepted if they come later; raise HttpStepError otherwise."""
        try:
            answer = await self._answer(handler, attempt, body)
            return outcome_of(answer, handler, self._settings.largest_answer, current_clock().wall())
        except NotCalled:
            raise
        except HttpStepError as error:
            raise _without_tokens(error, attempt) from None
        except Exception as error:  # noqa: BLE001 - every failure is classified
            if type(error) is TimeoutError:
                # aiohttp raises it for the total timeout; its other timeouts have their own types.
                error = AttemptTimeoutError(timeout_of(attempt, self._settings) or 0.0)
            raise _without_tokens(_as_step_error(error, handler), attempt) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _answer(self, handler: HttpHandler, attempt: Attempt, body: str) -> Answer:
        url = self._checked(handler.endpoint)
        content = body.encode()
        settings = self._settings
        if len(content) > settings.largest_request:
            raise BadRequest(
                f"the inputs take {len(content):,} bytes of JSON, more than the {settings.largest_request:,} allowed; "
                "store them elsewhere and pass a reference"
            )
        timeout = aiohttp.ClientTimeout(total=timeout_of(attempt, settings), sock_connect=settings.connect_timeout)
        headers = headers_of(handler, attempt, settings)
        message = message_id(headers[RECEIPT_TOKEN], headers[DELIVERY_TOKEN])
        headers |= self._signer.headers(str(url), message, content, current_clock().wall(), headers.get(CALLBACK))
        async with self._connections().post(
            url,
            data=content if len(content) <= _MAX_BYTES_BODY else io.BytesIO(content),
            headers=headers,
            allow_redirects=False,
            timeout=timeout,
        ) as response:
            attempt.http_status = response.status
            try:
                read = await read_body(response, settings.largest_answer)
            except BadAnswer:
                if response.ok:
                    raise
                # The status of a failure says more than the unreadable body.
                read = None
            return Answer(status=response.status, headers=response.headers, body=read or b"", whole=read is not None)

    def _checked(self, endpoint: str) -> URL:
        try:
            url = URL(endpoint)
            host = url.raw_host
        except ValueError as error:
            raise BadRequest(
                f"the endpoint {redact(endpoint, 200)} cannot be used: {redact(str(error), 200)}"
            ) from None
        if url.scheme not in ("http", "https") or not host:
            raise BadRequest(
                f"the endpoint {redact(endpoint, 200)} cannot be used: it must begin with http:// or https:// and "
                "name a host"
            )
        # The connector's resolver checks the addresses of names; an IP address is not resolved.
        if is_numeric_host(host) and self._rules.first_refused(host, [host]):
            raise AddressRefused(host, host)
        return url

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._settings.connections_in_all,
                limit_per_host=self._settings.connections,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                resolver=CheckedResolver(self._rules),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                request_class=self._request_class,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


def _checked_request(may_call: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    class CheckedRequest(aiohttp.ClientRequest):
        """Asks in the very turn that writes: a request waits for a connection, and then for a task of its own."""

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            if may_call():
                await super().write_bytes(writer, conn, content_length)
                return
            if conn.protocol is not None:
                conn.protocol.set_exception(NotCalled())
            conn.close()

    return CheckedRequest


def _as_step_error(error: Exception, handler: HttpHandler) -> HttpStepError:
    failure = classifier_of(handler).failure_of(error, current_clock().wall())
    if isinstance(error, RefusedAnswer):
        failure = structs.replace(failure, status=error.status)
    return HttpStepError(failure.message or failure.type, failure)


def _without_tokens(error: HttpStepError, attempt: Attempt) -> HttpStepError:
    """Return the error without the attempt's tokens: the handler may repeat them in its answer."""
    message = str(error)
    for token in (attempt.delivery_token, attempt.receipt_token):
        message = message.replace(token, HIDDEN)
    return HttpStepError(message, structs.replace(error.failure, message=message, error=None))
