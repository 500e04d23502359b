"""Report the outcome of an asynchronous step to the engine."""

from typing import Any

try:
    import aiohttp
except ImportError as error:
    raise ImportError("reporting outcomes needs aiohttp 3.12 or newer: pip install 'redrive[server]'") from error

import msgspec

from redrive.errors import OutcomeRefusedError
from redrive.failures.redaction import redact
from redrive.flows.values.json_form import JsonForm
from redrive.integrations.aiohttp import retry_middleware
from redrive.runners.http.request import USER_AGENT

_STALE = 409
_FORM = JsonForm(Any, "the outputs of the step")


async def report_outcome(
    callback_url: str, outputs: Any = None, *, error: str | None = None, retry: bool = False
) -> None:
    """Report the outputs of an asynchronous step, or the error it failed with; `retry` asks for another attempt.

    The report is repeated while the engine cannot be reached. OutcomeRefusedError when the attempt is not current
    any more: it took too long, and the engine has started another one.
    """
    kind = "application/json"
    if error is None:
        body = f'{{"success":true,"outputs":{_FORM.write(outputs)[0]}}}'.encode()
    elif retry:
        kind = "application/problem+json"
        body = msgspec.json.encode({"status": 503, "title": "failed transiently", "detail": error})
    else:
        body = msgspec.json.encode({"success": False, "error": error})
    headers = {"Content-Type": kind, "User-Agent": USER_AGENT}
    # Safe to repeat: the engine takes an outcome once.
    retries = retry_middleware(attempts=8, deadline=120, idempotent=True, operation="report_outcome")
    async with (
        aiohttp.ClientSession(middlewares=(retries,)) as session,
        session.post(callback_url, data=body, headers=headers) as response,
    ):
        if response.status >= 400:
            said = redact(await response.text(errors="replace"), 200)
            about = "another attempt is running, or the step has ended" if response.status == _STALE else said
            raise OutcomeRefusedError(f"the outcome was refused with {response.status}: {about}")
