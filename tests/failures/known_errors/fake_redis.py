"""A Redis that accepts the handshake and gives scripted answers to commands."""

import socket
from collections.abc import Mapping
from typing import BinaryIO

from tests.misbehaving.sockets import Answer

_HANDSHAKE = {"CLIENT": b"+OK\r\n", "HELLO": b"%1\r\n+proto\r\n:3\r\n"}


def fake_redis(answers: Mapping[str, bytes]) -> Answer:
    """Answers by command; `*` answers any other."""
    known = {**_HANDSHAKE, **answers}

    def talk(connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while command := _command(stream):
                answer = known.get(command, known.get("*", b"+OK\r\n"))
                connection.sendall(answer)

    return talk


def _command(stream: BinaryIO) -> str:
    """Read one command, `*2 $3 GET $3 key`, and return its name; empty when the client is gone."""
    line = stream.readline()
    if not line:
        return ""
    words = []
    for _ in range(int(line[1:])):
        length = int(stream.readline()[1:])
        words.append(stream.read(length + 2)[:-2])
    return words[0].decode().upper()
