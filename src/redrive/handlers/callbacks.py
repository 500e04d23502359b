"""Say how the work of an asynchronous step ended, once it has."""

from typing import Any

try:
    import aiohttp
except ImportError as error:
    raise ImportError("reporting outcomes needs aiohttp 3.12 or newer: pip install 'redrive[server]'") from error

import msgspec

from redrive.errors import OutcomeRefusedError
from redrive.failures.redaction import redact
from redrive.flows.json_forms import JsonForm
from redrive.integrations.aiohttp import retry_middleware
from redrive.runners.http.request import USER_AGENT

_STALE = 409
_FORM = JsonForm(Any, "the outputs of the step")


async def report_outcome(
    callback_url: str, outputs: Any = None, *, error: str | None = None, retry: bool = False
) -> None:
    """Report the outputs of the step, or the error that it failed with: for good, or with `retry` to be tried again.

    It is sent again while the engine cannot be reached. Raises OutcomeRefusedError when the attempt is not the current
    one any more (it took too long, and another one was begun).
    """
    kind = "application/json"
    if error is None:
        body = f'{{"success":true,"outputs":{_FORM.write(outputs)[0]}}}'.encode()
    elif retry:
        kind = "application/problem+json"
        body = msgspec.json.encode({"status": 503, "title": "failed, and may pass", "detail": error})
    else:
        body = msgspec.json.encode({"success": False, "error": error})
    headers = {"Content-Type": kind, "User-Agent": USER_AGENT}
    # The engine takes an outcome once, so sending it twice does no harm.
    retries = retry_middleware(attempts=8, deadline=120, idempotent=True, operation="report_outcome")
    async with (
        aiohttp.ClientSession(middlewares=(retries,)) as session,
        session.post(callback_url, data=body, headers=headers) as response,
    ):
        if response.status >= 400:
            said = redact(await response.text(errors="replace"), 200)
            about = "another attempt is under way, or it has ended" if response.status == _STALE else said
            raise OutcomeRefusedError(f"the outcome was refused with {response.status}: {about}")
