"""One link of the chain: `python -m tests.integrations.chain.service KIND NEXT_URL OWNERSHIP`.

It prints its URL, or (as the first link) calls the next one and prints what it got.
"""

import asyncio
import json
import socket
import sys
from typing import Any

import httpx

import redrive
from redrive.integrations.httpx import RetryTransport

QUICK: dict[str, Any] = {"attempts": 3, "backoff": 0, "jitter": "none", "floor": 0}


def main(kind: str, next_url: str, ownership: bool) -> None:
    client = httpx.Client(
        transport=RetryTransport(ownership_headers=ownership, raise_on_failure=True, idempotent=True, **QUICK),
        trust_env=False,
    )

    @redrive.retry(**QUICK)
    def call_next() -> Any:
        return client.post(next_url, json={}).json()

    if kind == "first":
        try:
            answer = call_next()
        except httpx.HTTPStatusError as error:
            answer = error.response.status_code
        print(json.dumps(answer))  # noqa: T201 - what the test reads
    elif kind == "fastapi":
        serve_fastapi(call_next)
    elif kind == "flask":
        serve_flask(call_next)
    else:
        serve_step(call_next)


def serve_fastapi(call_next: Any) -> None:
    import uvicorn
    from fastapi import FastAPI, HTTPException

    from redrive.integrations.fastapi import RetryOwnerMiddleware

    app = FastAPI()
    app.add_middleware(RetryOwnerMiddleware)

    @app.post("/")
    def root() -> Any:
        try:
            return call_next()
        except httpx.HTTPError:
            raise HTTPException(503) from None

    listening = socket.create_server(("127.0.0.1", 0))
    say_url(listening.getsockname()[1])
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listening])


def serve_flask(call_next: Any) -> None:
    from flask import Flask
    from werkzeug.serving import WSGIRequestHandler, make_server

    from redrive.integrations.wsgi import RetryOwnerMiddleware

    class Quiet(WSGIRequestHandler):
        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the base class calls it that
            """Say nothing: the test reads what is printed."""

    app = Flask(__name__)
    app.wsgi_app = RetryOwnerMiddleware(app.wsgi_app)  # type: ignore[method-assign]

    @app.post("/")
    def root() -> Any:
        try:
            return call_next()
        except httpx.HTTPError:
            return "", 503

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    say_url(server.server_port)
    server.serve_forever()


def serve_step(call_next: Any) -> None:
    from redrive.handlers import StepServer

    def step() -> dict[str, Any]:
        call_next()
        return {}

    async def run() -> None:
        async with StepServer(step) as server:
            say_url(int(server.url.rpartition(":")[2]), "step")
            await asyncio.Event().wait()

    asyncio.run(run())


def say_url(port: int, path: str = "") -> None:
    print(f"http://127.0.0.1:{port}/{path}", flush=True)  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "yes")
