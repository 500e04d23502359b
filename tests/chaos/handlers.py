"""Handlers of the storm's HTTP steps, in a process that is killed too: python -m tests.chaos.handlers PORT

They do no harm when they are called twice, and fail as the number of the flow and of the attempt say: with 503, by
closing the connection, or by reporting the outcome of an asynchronous step and then answering with an error.
"""

import asyncio
import contextlib
import sys

import aiohttp
from aiohttp import web
from tests.chaos.effects import note_request

REPORT_AGAIN_AFTER = 0.2
REPORTED_AT_MOST = 200


def fails(request: web.Request, number: int) -> web.Response | None:
    """The first attempts of some flows fail."""
    if int(request.headers["redrive-attempt"]) > number % 3:
        return None
    if number % 2:
        return web.json_response({"error": "come again"}, status=503)
    if request.transport is not None:
        request.transport.close()
    return web.Response(status=500)


async def reserve(request: web.Request) -> web.Response:
    note_request("start", request.headers)
    number = (await request.json())["number"]
    if failure := fails(request, number):
        return failure
    note_request("end", request.headers)
    return web.json_response({"shelf": f"shelf-{number}"})


async def ship(request: web.Request) -> web.Response:
    note_request("start", request.headers)
    inputs = await request.json()
    if inputs["refuses"]:
        return web.json_response({"success": False, "error": "sold out"})
    note_request("end", request.headers)
    return web.json_response({"parcel": f"parcel-{inputs['number']}"})


async def undo(request: web.Request) -> web.Response:
    note_request("start", request.headers)
    note_request("end", request.headers)
    return web.Response(status=200)


class Charging:
    """Accepts work and reports later, or reports at once and then answers with an error."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._reports: set[asyncio.Task[bool]] = set()

    async def charge(self, request: web.Request) -> web.Response:
        note_request("start", request.headers)
        number = (await request.json())["number"]
        reporting = asyncio.create_task(self._report(dict(request.headers), number))
        self._reports.add(reporting)
        reporting.add_done_callback(self._reports.discard)
        if number % 4 == 0:
            # Its own answer is an error, though the work is done, and its report was acknowledged.
            done, _ = await asyncio.wait([reporting], timeout=2)
            if done and reporting.result():
                return web.json_response({"error": "crashed after the report"}, status=422 if number % 8 else 503)
        return web.json_response({"accepted": True}, status=202)

    async def _report(self, headers: dict[str, str], number: int) -> bool:
        """Report until there is an answer that will not change; return whether the report was acknowledged."""
        lower = {name.lower(): value for name, value in headers.items()}
        if number % 4:
            await asyncio.sleep(number % 5 / 10)
        session = self._session = self._session or aiohttp.ClientSession()
        body = {"success": True, "outputs": {"receipt": f"receipt-{number}"}}
        # The answer may be lost: with the server, or with this process.
        note_request("reporting", lower)
        for _ in range(REPORTED_AT_MOST):
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(lower["redrive-callback"], json=body, timeout=_TIMEOUT) as answer:
                    if answer.status in (200, 202):
                        note_request("reported", lower)
                        return True
                    if answer.status < 500 and answer.status != 429:
                        return False
            await asyncio.sleep(REPORT_AGAIN_AFTER)
        return False


_TIMEOUT = aiohttp.ClientTimeout(total=5)


def app() -> web.Application:
    charging = Charging()
    made = web.Application()
    made.add_routes(
        [
            web.post("/reserve", reserve),
            web.post("/charge", charging.charge),
            web.post("/ship", ship),
            web.post("/release", undo),
            web.post("/refund", undo),
        ]
    )
    return made


async def serve(port: int) -> None:
    runner = web.AppRunner(app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, reuse_port=True).start()
    print("ready", flush=True)  # noqa: T201 - whoever started it waits for this
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
