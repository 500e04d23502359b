"""Errors of paramiko, from an SSH server in a thread that refuses, drops or stalls."""

import contextlib
import functools
import socket
import threading
from collections.abc import Callable, Iterator

import paramiko
import pytest
from paramiko import common, ssh_exception
from tests.failures.asking import error_of, verdict_of

from redrive.failures.failure import Category

from .conftest import ServeFault

Login = Callable[[paramiko.Transport], int]


@functools.cache
def host_key() -> paramiko.PKey:
    return paramiko.ECDSAKey.generate()


class Server(paramiko.ServerInterface):
    """Judges logins and channels as it was told to."""

    def __init__(self, transport: paramiko.Transport, login: Login, channel: int) -> None:
        self._transport, self._login, self._channel = transport, login, channel

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_auth_password(self, username: str, password: str) -> int:
        return self._login(self._transport)

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return self._channel

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self._transport.close()
        return True

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        self._transport.close()
        return True


def accept(_transport: paramiko.Transport) -> int:
    return common.AUTH_SUCCESSFUL


def refuse(_transport: paramiko.Transport) -> int:
    return common.AUTH_FAILED


def drop(transport: paramiko.Transport) -> int:
    transport.close()
    return common.AUTH_FAILED


class SSHServer:
    """Starts servers that behave in a given way, and logs in to them."""

    def __init__(self, serve: ServeFault, ends: contextlib.ExitStack) -> None:
        self._serve, self._ends = serve, ends
        self.over = threading.Event()

    def log_in(
        self, login: Login = accept, channel: int = common.OPEN_SUCCEEDED, trusted: bool = True
    ) -> paramiko.SSHClient:
        def talk(connection: socket.socket) -> None:
            with contextlib.closing(paramiko.Transport(connection)) as transport:
                transport.add_server_key(host_key())
                with contextlib.suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=Server(transport, login, channel))
                    self.over.wait(10)

        client = self._ends.enter_context(paramiko.SSHClient())
        if trusted:
            client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        port = self._serve(talk)
        client.connect("127.0.0.1", port, "bob", "secret", auth_timeout=0.3, look_for_keys=False, allow_agent=False)
        return client

    def stall(self, _transport: paramiko.Transport) -> int:
        self.over.wait(10)
        return common.AUTH_FAILED


@pytest.fixture
def ssh(serve: ServeFault) -> Iterator[SSHServer]:
    with contextlib.ExitStack() as ends:
        server = SSHServer(serve, ends)
        ends.callback(server.over.set)
        yield server


@pytest.mark.promise("P2")
def test_a_login_that_is_refused(ssh: SSHServer) -> None:
    error = error_of(lambda: ssh.log_in(refuse))
    assert isinstance(error, paramiko.AuthenticationException)
    assert verdict_of(error).category == "permanent"


@pytest.mark.promise("L2")
def test_a_connection_that_is_lost_or_stalls_during_the_login(ssh: SSHServer) -> None:
    """paramiko calls it a failed authentication."""
    for error in (error_of(lambda: ssh.log_in(drop)), error_of(lambda: ssh.log_in(ssh.stall))):
        assert isinstance(error, paramiko.AuthenticationException)
        assert verdict_of(error).category == "transient"


@pytest.mark.promise("L2")
def test_a_connection_that_is_lost_afterwards(ssh: SSHServer) -> None:
    client = ssh.log_in()
    assert verdict_of(error_of(lambda: client.exec_command("true"))).category == "transient"
    # And again, on the connection that is gone.
    assert verdict_of(error_of(lambda: client.exec_command("true"))).category == "transient"
    files = ssh.log_in()
    assert verdict_of(error_of(files.open_sftp)).category == "transient"


@pytest.mark.parametrize(
    ("code", "category"),
    [
        (common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, "permanent"),
        (common.OPEN_FAILED_CONNECT_FAILED, "transient"),
        (common.OPEN_FAILED_UNKNOWN_CHANNEL_TYPE, "permanent"),
        (common.OPEN_FAILED_RESOURCE_SHORTAGE, "transient"),
    ],
)
def test_channels_that_are_refused(code: int, category: Category, ssh: SSHServer) -> None:
    client = ssh.log_in(channel=code)
    error = error_of(lambda: client.exec_command("true"))
    assert isinstance(error, paramiko.ChannelException)
    assert verdict_of(error).category == category


@pytest.mark.promise("P2")
def test_a_host_key_that_is_not_known(ssh: SSHServer) -> None:
    assert verdict_of(error_of(lambda: ssh.log_in(trusted=False))).category == "permanent"


@pytest.mark.promise("L2")
@pytest.mark.parametrize(
    "error",
    [
        ssh_exception.ProxyCommandFailure("nc", "broken pipe"),
        paramiko.SSHException("Key-exchange timed out waiting for key negotiation"),
        paramiko.SSHException("Server connection dropped: "),
        paramiko.SSHException("Channel closed."),
        paramiko.SFTPError("Garbage packet received"),
    ],
)
def test_connections_that_a_test_cannot_lose_that_way(error: Exception) -> None:
    """Built by hand: they take a proxy, or a server that fails in the middle of a key exchange."""
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_peers_that_do_not_fit() -> None:
    """Built by hand: they take other servers."""
    wrong = ssh_exception.BadHostKeyException("host", host_key(), host_key())
    assert verdict_of(wrong).category == "permanent"
    assert verdict_of(ssh_exception.IncompatiblePeer("no acceptable ciphers")).category == "permanent"
