"""Ports that the tests start servers on."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import ports
from tests.ports import HOST, STRIPE, free_ports


def test_ports_are_consecutive_and_not_ephemeral() -> None:
    lowest, highest = ports._ephemeral_range()
    first = free_ports(3)
    assert all(not lowest <= port <= highest for port in range(first, first + 3))
    assert free_ports() not in range(first, first + 3)


def test_ports_that_someone_listens_on_are_passed_over() -> None:
    with socket.create_server((HOST, free_ports())) as taken:
        port = taken.getsockname()[1]
        given = [free_ports() for _ in range(STRIPE)]
    assert port not in given
    # Every other one of the process has its turn first.
    assert len(set(given[:20])) == 20


def test_processes_have_different_ports() -> None:
    code = "from tests.ports import free_ports; print(free_ports(50), flush=True); input()"
    running = [
        subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        for _ in range(4)
    ]
    firsts = {int(one.stdout.readline()) for one in running if one.stdout is not None}
    for one in running:
        one.communicate("\n")
    assert len({first // STRIPE for first in (*firsts, free_ports())}) == 5


def test_where_every_port_is_ephemeral_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    everything = tmp_path / "range"
    everything.write_text("1024\t65535\n", encoding="ascii")
    monkeypatch.setattr(ports, "SYSTEM_RANGE", everything)
    with pytest.raises(RuntimeError, match="every port is ephemeral"):
        ports._stripe_of(-os.getpid())
