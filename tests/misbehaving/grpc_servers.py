"""A real gRPC server that fails on request, and a proxy that breaks its connections midway."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from . import sockets
from .failures import PATIENCE, Played, misbehaving
from .library import imported

METHOD = "/shop.Orders/Place"
Handler = Callable[[bytes, Any], bytes]


def place_order(target: str, timeout: float = PATIENCE) -> bytes:
    """Call the one method of the server, with gRPC's own retries switched off."""
    grpc = imported("grpc")
    options = [("grpc.enable_retries", 0), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(target, options=options) as channel:
        answer: bytes = channel.unary_unary(METHOD)(b"", timeout=timeout)
        return answer


def abort_with(code: str, details: str = "no", **trailers: str) -> Handler:
    """Answers with this code and these trailers."""

    def handler(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata(tuple((name.replace("_", "-"), value) for name, value in trailers.items()))
        context.abort(imported("grpc").StatusCode[code], details)
        return b""

    return handler


GRPC_ANSWERS = {
    "UNAVAILABLE": abort_with("UNAVAILABLE"),
    "UNAVAILABLE, grpc-retry-pushback-ms: 7000": abort_with("UNAVAILABLE", grpc_retry_pushback_ms="7000"),
    "UNAVAILABLE, grpc-retry-pushback-ms: -1": abort_with("UNAVAILABLE", grpc_retry_pushback_ms="-1"),
}


@contextmanager
def grpc_server(handler: Handler) -> Iterator[int]:
    """The port of a server that answers with the handler."""
    grpc = imported("grpc")
    service, method = METHOD.strip("/").split("/")
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        methods = {method: grpc.unary_unary_rpc_method_handler(handler)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        port: int = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(None).wait()


@contextmanager
def broken_midway(reset: bool) -> Iterator[int]:
    """The port of a server whose connections break after it has received the request. One request at a time."""
    received = threading.Event()

    def handler(request: bytes, context: Any) -> bytes:
        received.set()
        return _never_answer(request, context)

    def forward(client: socket.socket) -> None:
        received.clear()
        with socket.create_connection(("127.0.0.1", behind)) as server:
            for end in (client, server):
                end.settimeout(0.01)
            while not received.is_set():
                for source, target in ((client, server), (server, client)):
                    try:
                        target.sendall(source.recv(65_536))
                    except TimeoutError:
                        continue
        if reset:
            sockets.reset(client)

    with grpc_server(handler) as behind, closing(sockets.FaultyServer(forward)) as front:
        yield front.port


@contextmanager
def misbehaving_grpc(how: str | Played) -> Iterator[str]:
    """The address of a server that misbehaves in the same ways as `misbehaving`, but speaks gRPC.

    Besides, it gives the answers of `GRPC_ANSWERS`.
    """
    if how in ("reset", "closed"):
        with broken_midway(reset=how == "reset") as port:
            yield f"127.0.0.1:{port}"
    elif isinstance(how, str) and (how == "timeout" or how in GRPC_ANSWERS):
        with grpc_server(GRPC_ANSWERS.get(how, _never_answer)) as port:
            yield f"127.0.0.1:{port}"
    else:
        with misbehaving(how) as url:
            yield url.removeprefix("http://")


def _never_answer(request: bytes, context: Any) -> bytes:
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(5)
    return b""
