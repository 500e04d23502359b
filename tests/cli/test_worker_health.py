"""`redrive worker --health`: what a service manager learns of a worker, from its start to its end."""

import contextlib
import http.client
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.test_worker_command import SHOP, Process, Shell, shell, until
from tests.ports import free_ports
from tests.postgres_server import PostgresServer

__all__ = ["shell"]  # the fixture


class Probe:
    """Asks a worker how it is."""

    def __init__(self, worker: Process) -> None:
        worker.says(", health http://")
        found = re.search(r"health http://(127\.0\.0\.1):([0-9]+)", worker.said)
        assert found is not None, worker.said
        self.address = found[1], int(found[2])

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection(*self.address, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def becomes(self, wanted: Callable[[tuple[int, str]], bool]) -> None:
        until(lambda: wanted(self.get("/readyz")))

    def send(self, data: bytes) -> bytes:
        with socket.create_connection(self.address, timeout=10) as connection:
            connection.sendall(data)
            received = b""
            while piece := connection.recv(4096):
                received += piece
            return received


@pytest.mark.promise("L7")
def test_a_worker_is_ready_until_it_is_told_to_stop_and_alive_until_it_has_stopped(shell: Shell) -> None:
    worker = shell.begin("worker", SHOP, "--health", "0")
    probe = Probe(worker)
    probe.becomes(lambda answer: answer == (200, "ok\n"))
    assert probe.get("/healthz") == (200, "ok\n")
    flow_id = shell.start_waiting()
    status, metrics = probe.get("/metrics")
    assert status == 200
    assert 'redrive_flows{queue="default",status="running"} 1.0' in metrics
    # Attempts that run get their grace; meanwhile nothing new may be sent here.
    worker.process.send_signal(signal.SIGTERM)
    probe.becomes(lambda answer: answer == (503, "the worker is shutting down\n"))
    assert probe.get("/healthz") == (200, "ok\n")
    shell.let_go()
    assert worker.process.wait(30) == 0
    shell.becomes(flow_id, "completed")


def test_the_metrics_of_a_worker_count_its_attempts(shell: Shell) -> None:
    probe = Probe(shell.begin("worker", SHOP, "--health", "0"))
    flow_id = shell.start_waiting()
    shell.let_go()
    shell.becomes(flow_id, "completed")
    until(lambda: 'redrive_attempts_total{outcome="succeeded",step="cli_wait_for"} 1.0' in probe.get("/metrics")[1])


def test_what_is_not_asked_well_is_answered_shortly_or_not_at_all(shell: Shell) -> None:
    probe = Probe(shell.begin("worker", SHOP, "--health", "0"))
    assert probe.get("/flows") == (404, "use /healthz, /readyz or /metrics\n")
    assert probe.get("/healthz", "POST")[0] == 405
    assert probe.get("/healthz", "HEAD") == (200, "")
    assert probe.send(b"\x16\x03\x01 not HTTP\r\n\r\n").startswith(b"HTTP/1.1 404 ")
    # Closed without an answer, perhaps while it is still being sent.
    with contextlib.suppress(OSError):
        assert probe.send(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 100_000) == b""
    # Connections that say nothing take no more than their share, and those who come later are let in when they are cut.
    idle = [socket.create_connection(probe.address, timeout=10) for _ in range(40)]
    for connection in idle:
        connection.close()
    probe.becomes(lambda answer: answer == (200, "ok\n"))


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


def test_a_worker_whose_store_is_away_is_alive_but_not_ready(shell: Shell, database: PostgresServer) -> None:
    shell.environment["REDRIVE_STORE"] = database.fresh_database()
    probe = Probe(shell.begin("worker", SHOP, "--health", "0", "--lease", "2s"))
    probe.becomes(lambda answer: answer == (200, "ok\n"))
    database.stop()
    probe.becomes(lambda answer: answer[0] == 503)
    assert "\n" not in probe.get("/readyz")[1].rstrip("\n")
    assert probe.get("/healthz") == (200, "ok\n")
    assert probe.get("/metrics")[0] == 200
    # Its lease runs out meanwhile: it is ready when it has another.
    time.sleep(2.5)
    assert probe.get("/readyz")[0] == 503
    database.start()
    probe.becomes(lambda answer: answer == (200, "ok\n"))


@pytest.mark.parametrize("text", ["x", "99999", "127.0.0.1:", ":9090", "-1", "1.5"])
def test_an_address_that_is_none_is_refused_with_what_to_write(shell: Shell, text: str) -> None:
    worker = shell.begin("worker", SHOP, f"--health={text}")
    assert worker.process.wait(30) == 2
    assert f"--health: '{text}' is not an address; use a port such as 9090, or HOST:PORT" in worker.said


def test_a_port_that_is_taken_is_refused(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        worker = shell.begin("worker", SHOP, "--health", str(taken.getsockname()[1]))
        assert worker.process.wait(30) == 2
    assert "redrive: --health: cannot listen on 127.0.0.1:" in worker.said


def test_each_of_several_processes_has_a_port_of_its_own(shell: Shell, tmp_path: Path) -> None:
    first = free_ports(2)
    worker = shell.begin("worker", SHOP, "--processes", "2", "--health", str(first))
    worker.says(", health http://", times=2)
    assert all(f"health http://127.0.0.1:{port}\n" in worker.said for port in (first, first + 1))
    assert worker.ends_with(signal.SIGTERM) == 0
