"""A MongoDB primary that accepts the handshake and gives scripted answers to commands."""

import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import bson
from tests.misbehaving.sockets import Answer

OP_MSG = 2013
_HEADER = struct.Struct("<iiii")
_HELLO = {
    "ok": 1,
    "isWritablePrimary": True,
    "helloOk": True,
    "maxWireVersion": 25,
    "minWireVersion": 0,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "setName": "rs",
    "hosts": [],
}

Reply = Mapping[str, Any] | Callable[[socket.socket], None]
"""A document, or what to do with the connection instead of an answer."""


def fake_mongo(replies: Mapping[str, Reply]) -> Answer:
    """Replies by command, in lower case. Needs a client with `server_api`, which speaks OP_MSG from the start."""

    def talk(connection: socket.socket) -> None:
        own = connection.getsockname()
        hello = {**_HELLO, "hosts": [f"{own[0]}:{own[1]}"], "me": f"{own[0]}:{own[1]}"}
        with connection.makefile("rb") as stream:
            while request := _request(stream):
                number, command = request
                reply = hello if command in ("hello", "ismaster") else replies.get(command, {"ok": 1})
                if callable(reply):
                    reply(connection)
                    return
                body = struct.pack("<ib", 0, 0) + bson.encode(dict(reply))
                connection.sendall(_HEADER.pack(_HEADER.size + len(body), 0, number, OP_MSG) + body)

    return talk


def _request(stream: BinaryIO) -> tuple[int, str] | None:
    """Return the number of the next request and its command; None when the client is gone."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    length, number, _, operation = _HEADER.unpack(header)
    assert operation == OP_MSG
    message = stream.read(length - _HEADER.size)
    # Flags, then the kind of the first section, which is the command.
    size = struct.unpack_from("<i", message, 5)[0]
    document = bson.decode(message[5 : 5 + size])
    return number, next(iter(document)).lower()
