"""Errors of smtplib and aiosmtplib, from a mail server that refuses one of its commands."""

import asyncio
import smtplib
import socket
from collections.abc import Callable, Sequence

import aiosmtplib
import pytest
from tests.failures.asking import error_of, verdict_of
from tests.misbehaving.sockets import Answer

from redrive.failures.failure import Category

from .conftest import ServeFault

TO = ("bob@example.com", "eve@example.com")
ACCEPTED = {"EHLO": "250-mail.example.com\r\n250 AUTH PLAIN", "AUTH": "235 welcome", "QUIT": "221 bye"}
Send = Callable[[int], object]


def mail_server(command: str, answers: Sequence[str]) -> Answer:
    """Give these answers to this command, in turn, and accept everything else. No text at all hangs up."""

    def talk(connection: socket.socket) -> None:
        left = list(answers)

        def answer(line: str) -> str:
            if line.upper().startswith(command):
                return left.pop(0) if len(left) > 1 else left[0]
            return ACCEPTED.get(line[:4].upper(), "250 ok")

        with connection.makefile("rb") as stream:
            reply = answer("CONNECT") if command == "CONNECT" else "220 ready"
            while reply:
                connection.sendall(f"{reply}\r\n".encode())
                line = stream.readline().decode()
                if line.upper().startswith("DATA") and command != "DATA":
                    connection.sendall(b"354 go ahead\r\n")
                    while stream.readline().strip() != b".":
                        pass
                    line = "END"
                if not line:
                    return
                reply = answer(line)

    return talk


def by_smtplib(port: int) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=5) as client:
        client.ehlo_or_helo_if_needed()
        client.login("bob", "secret")
        client.sendmail("ann@example.com", TO, "Subject: hello\r\n\r\nhello")


def by_aiosmtplib(port: int) -> None:
    async def send() -> None:
        async with aiosmtplib.SMTP(hostname="127.0.0.1", port=port, timeout=5, start_tls=False) as client:
            await client.login("bob", "secret")
            await client.sendmail("ann@example.com", list(TO), "Subject: hello\r\n\r\nhello")

    asyncio.run(send())


every_client = pytest.mark.parametrize("send", [by_smtplib, by_aiosmtplib], ids=lambda send: send.__name__)


@pytest.mark.promise("L2")
@every_client
@pytest.mark.parametrize(
    ("command", "answer", "category"),
    [
        ("CONNECT", "421 too busy", "transient"),
        ("CONNECT", "554 no service here", "permanent"),
        ("AUTH", "454 temporary authentication failure", "transient"),
        ("AUTH", "535 credentials invalid", "permanent"),
        ("MAIL", "451 local error", "transient"),
        ("MAIL", "421 shutting down", "transient"),
        ("MAIL", "550 sender refused", "permanent"),
        ("RCPT", "450 mailbox busy: greylisted", "transient"),
        ("RCPT", "550 no such user", "permanent"),
        ("END", "452 insufficient storage", "transient"),
        ("END", "554 looks like spam", "permanent"),
        ("DATA", "451 not now", "transient"),
    ],
)
def test_the_code_of_the_answer(command: str, answer: str, category: Category, send: Send, serve: ServeFault) -> None:
    port = serve(mail_server(command, [answer]))
    verdict = verdict_of(error_of(lambda: send(port)))
    assert verdict.category == category
    assert answer[:3] in verdict.reason
    assert verdict.not_sent == (category == "transient")


@pytest.mark.promise("L2")
@every_client
@pytest.mark.parametrize("command", ["CONNECT", "MAIL", "RCPT", "END"])
def test_a_server_that_hangs_up(command: str, send: Send, serve: ServeFault) -> None:
    port = serve(mail_server(command, [""]))
    assert verdict_of(error_of(lambda: send(port))).category == "transient"


@pytest.mark.promise("L2")
@every_client
def test_one_recipient_who_may_be_accepted_later_is_worth_a_retry(send: Send, serve: ServeFault) -> None:
    port = serve(mail_server("RCPT", ["550 no such user", "450 greylisted"]))
    assert verdict_of(error_of(lambda: send(port))).category == "transient"


@pytest.mark.promise("L2")
def test_an_answer_that_is_not_smtp(serve: ServeFault) -> None:
    port = serve(mail_server("MAIL", ["what?"]))
    error = error_of(lambda: by_smtplib(port))
    assert isinstance(error, smtplib.SMTPResponseException)
    assert verdict_of(error).category == "transient"


@pytest.mark.promise("P2")
def test_what_the_server_does_not_support() -> None:
    """Built by hand: the client raises it before it asks."""
    assert verdict_of(smtplib.SMTPNotSupportedError("SMTPUTF8 not supported by server")).category == "permanent"
    assert verdict_of(aiosmtplib.SMTPNotSupported("SMTPUTF8 is not supported")).category == "permanent"
