"""Errors of the system and of the standard library, most of them raised by operations that really fail."""

import asyncio
import concurrent.futures
import errno
import http.client
import smtplib
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from email.message import Message
from pathlib import Path

import pytest
import trio

from redrive.failures.failure import Category
from redrive.failures.known_errors.lookup import known_verdict

from .asking import ServeBytes, error_of, verdict_of


class TestSystemErrors:
    @pytest.mark.promise("P1")
    @pytest.mark.parametrize(
        "name",
        ["ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EAGAIN", "EBUSY", "EINTR", "EMFILE"],
    )
    def test_numbers_that_pass(self, name: str) -> None:
        error = OSError(getattr(errno, name), "said so")
        assert verdict_of(error).category == "transient"

    def test_the_reason_names_the_number(self) -> None:
        assert verdict_of(OSError(errno.EHOSTUNREACH, "x")).reason.startswith("EHOSTUNREACH: ")

    @pytest.mark.promise("P2")
    @pytest.mark.parametrize("name", ["ENOENT", "EACCES", "EPERM", "EROFS", "EINVAL", "EISDIR"])
    def test_numbers_that_stay(self, name: str) -> None:
        assert verdict_of(OSError(getattr(errno, name), "said so")).category == "permanent"

    @pytest.mark.promise("P4")
    @pytest.mark.parametrize("name", ["ENOSPC", "EIO", "ENOMEM"])
    def test_numbers_that_say_neither(self, name: str) -> None:
        assert known_verdict(OSError(getattr(errno, name), "said so")) is None

    def test_a_real_missing_file(self, tmp_path: Path) -> None:
        assert verdict_of(error_of((tmp_path / "none").read_text)).category == "permanent"

    @pytest.mark.promise("P1", "P10")
    def test_a_real_refused_connection_was_not_sent(self, closed_port: int) -> None:
        error = error_of(lambda: socket.create_connection(("127.0.0.1", closed_port), timeout=5))
        assert verdict_of(error).category == "transient"
        assert verdict_of(error).not_sent

    @pytest.mark.promise("P1", "A2", "P10")
    def test_a_real_dns_failure_passes_and_was_not_sent(self) -> None:
        error = error_of(lambda: socket.getaddrinfo("nonexistent.invalid", 80))
        assert isinstance(error, socket.gaierror)
        verdict = verdict_of(error)
        assert verdict.category == "transient"
        assert verdict.not_sent
        assert str(error.strerror) in verdict.reason

    def test_dns_numbers_are_not_taken_for_system_numbers(self) -> None:
        assert verdict_of(socket.herror(2, "try again")).category == "transient"
        assert verdict_of(socket.gaierror(socket.EAI_NONAME, "not known")).not_sent

    @pytest.mark.promise("P10")
    def test_asyncio_tells_several_failed_addresses_in_one_text(self) -> None:
        refused = "[Errno 111] Connect call failed ('::1', 1, 0, 0)"
        other = "[Errno 101] Connect call failed ('127.0.0.1', 1)"
        verdict = verdict_of(OSError(f"Multiple exceptions: {refused}, {refused}"))
        assert (verdict.category, verdict.not_sent) == ("transient", True)
        mixed = verdict_of(OSError(f"Multiple exceptions: {refused}, {other}"))
        assert (mixed.category, mixed.not_sent) == ("transient", False)
        assert known_verdict(OSError(f"Multiple exceptions: {refused}, [Errno 13] denied")) is None

    @pytest.mark.promise("P10")
    def test_trio_keeps_the_failed_addresses_in_a_group(self, closed_port: int) -> None:
        async def connect() -> None:
            await trio.open_tcp_stream("127.0.0.1", closed_port)

        error = error_of(lambda: trio.run(connect))
        assert type(error) is OSError
        assert (verdict_of(error).category, verdict_of(error).not_sent) == ("transient", True)


class TestStandardLibrary:
    @pytest.mark.promise("A2")
    def test_a_body_cut_off_half_way(self, serve_bytes: ServeBytes) -> None:
        url = serve_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - a server of this test
            error = error_of(response.read)
        assert isinstance(error, http.client.IncompleteRead)
        assert verdict_of(error).category == "transient"
        assert "cut off" in verdict_of(error).reason

    @pytest.mark.promise("A2")
    def test_a_stream_cut_off_half_way(self) -> None:
        async def read() -> None:
            reader = asyncio.StreamReader()
            reader.feed_data(b"half")
            reader.feed_eof()
            await reader.readexactly(100)

        assert verdict_of(error_of(lambda: asyncio.run(read()))).category == "transient"

    @pytest.mark.promise("A2")
    @pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n"])
    def test_a_broken_answer(self, serve_bytes: ServeBytes, answer: bytes) -> None:
        url = serve_bytes(answer)
        verdict = verdict_of(error_of(lambda: urllib.request.urlopen(url, timeout=5)))  # noqa: S310 - a server of this test
        assert verdict.category == "transient"
        assert not verdict.not_sent

    @pytest.mark.promise("P10")
    def test_urllib_carries_the_reason(self, closed_port: int) -> None:
        refused = error_of(lambda: urllib.request.urlopen(f"http://127.0.0.1:{closed_port}", timeout=5))
        assert (verdict_of(refused).category, verdict_of(refused).not_sent) == ("transient", True)
        unresolved = error_of(lambda: urllib.request.urlopen("http://nonexistent.invalid", timeout=5))
        assert (verdict_of(unresolved).category, verdict_of(unresolved).not_sent) == ("transient", True)
        bad = error_of(lambda: urllib.request.urlopen("nonsense://x"))  # noqa: S310 - it must not open
        assert verdict_of(bad).category == "permanent"
        assert known_verdict(urllib.error.URLError("no idea")) is None

    @pytest.mark.promise("S1", "P7")
    def test_urllib_http_errors_go_by_status(self, serve_bytes: ServeBytes) -> None:
        url = serve_bytes(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
        error = error_of(lambda: urllib.request.urlopen(url, timeout=5))  # noqa: S310 - a server of this test
        assert isinstance(error, urllib.error.HTTPError)
        verdict = verdict_of(error)
        assert (verdict.category, verdict.status, verdict.retry_after) == ("transient", 503, "7")
        error.close()
        missing = urllib.error.HTTPError("http://x", 404, "Not Found", Message(), None)
        assert verdict_of(missing).category == "permanent"
        missing.close()

    @pytest.mark.parametrize(
        ("error", "category"),
        [
            (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "permanent"),
            (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), "transient"),
            (ssl.SSLZeroReturnError(6, "closed"), "transient"),
            (ssl.SSLError("The handshake operation timed out"), "transient"),
            (ssl.SSLError(1, "[SSL: UNEXPECTED_EOF_WHILE_READING] EOF"), "transient"),
            # 1 is EPERM and 5 is EIO to the system; to TLS they are not.
            (ssl.SSLError(1, "[SSL] internal error"), "unknown"),
            (ssl.SSLSyscallError(5, "some I/O error"), "transient"),
        ],
    )
    def test_tls(self, error: Exception, category: Category) -> None:
        assert verdict_of(error).category == category

    def test_a_real_tls_mismatch_stays(self, serve_bytes: ServeBytes) -> None:
        port = int(serve_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n").rpartition(":")[2])

        def handshake() -> None:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with ssl.create_default_context().wrap_socket(plain, server_hostname="localhost"):
                    pass

        error = error_of(handshake)
        assert isinstance(error, ssl.SSLError)
        assert verdict_of(error).category == "permanent"

    @pytest.mark.parametrize(
        ("error", "category"),
        [
            (smtplib.SMTPServerDisconnected("gone"), "transient"),
            (smtplib.SMTPResponseException(421, "try later"), "transient"),
            (smtplib.SMTPResponseException(550, "no such user"), "permanent"),
            (smtplib.SMTPAuthenticationError(535, b"bad credentials"), "permanent"),
            (subprocess.TimeoutExpired("sleep", 1), "transient"),
            (concurrent.futures.CancelledError(), "permanent"),
        ],
    )
    def test_mail_processes_and_futures(self, error: Exception, category: Category) -> None:
        assert verdict_of(error).category == category
