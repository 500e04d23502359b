"""A middleware for ASGI applications (FastAPI, Starlette, Litestar, Django): the caller of a request owns its retries.

app.add_middleware(RetryOwnerMiddleware)
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from redrive.calls.ownership_headers import Inherited, inherit_ownership

__all__ = ["RetryOwnerMiddleware"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class RetryOwnerMiddleware:
    """Lets guarded calls make one attempt each, within the caller's time, if a guarded call sent the request.

    It reads the headers Redrive-Attempt and Redrive-Deadline. Work that goes on after the response, such as a
    background task, owns its retries again.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with inherit_ownership(headers) as inherited:
            await self._app(scope, receive, send if inherited is None else _ending_with_response(inherited, send))


def _ending_with_response(inherited: Inherited, send: Send) -> Send:
    async def send_and_end(message: Message) -> None:
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            inherited.end()

    return send_and_end
