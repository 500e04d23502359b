"""Worker processes of the shop, and what their executions noted."""

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]


class Note(NamedTuple):
    word: str
    flow: str
    item: int
    attempt: int
    delivery: str
    receipt: str


class Fleet:
    """Starts workers, kills them, and reads the notes."""

    def __init__(self, address: str, folder: Path, **settings: float) -> None:
        self.address = address
        self.notes_file = folder / "notes"
        self.notes_file.touch()
        self.settings = [f"{name}={value}" for name, value in settings.items()]
        self.workers: list[subprocess.Popen[str]] = []
        self.said: list[Path] = []
        self._folder = folder

    def __enter__(self) -> Self:
        os.environ["SHOP_NOTES"] = str(self.notes_file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.send_signal(signal.SIGCONT)
            worker.kill()
            self._reap(worker)

    def start(self, count: int = 1) -> list[subprocess.Popen[str]]:
        """Start workers and wait until they are ready."""
        new = []
        for _ in range(count):
            said = self._folder / f"worker-{len(self.said)}.log"
            self.said.append(said)
            with said.open("w") as log:
                worker = subprocess.Popen(  # noqa: S603 - our own worker
                    [sys.executable, "-m", "tests.worker.worker_process", self.address, *self.settings],
                    cwd=ROOT,
                    env={**os.environ, "SHOP_NOTES": str(self.notes_file)},
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            new.append(worker)
        for worker in new:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n", self.log_of(len(self.said) - 1)
        self.workers += new
        return new

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.kill()
        self._reap(worker)
        self.workers.remove(worker)

    def stop(self, worker: subprocess.Popen[str], patience: float = 30) -> int:
        """SIGTERM, and wait for its end."""
        worker.terminate()
        code = worker.wait(patience)
        self._reap(worker)
        self.workers.remove(worker)
        return code

    def _reap(self, worker: subprocess.Popen[str]) -> None:
        worker.wait(30)
        if worker.stdout is not None:
            worker.stdout.close()

    def log_of(self, index: int) -> str:
        return self.said[index].read_text()

    def notes(self) -> list[Note]:
        lines = self.notes_file.read_text().splitlines()
        return [
            Note(word, flow, int(item), int(attempt), delivery, receipt)
            for word, flow, item, attempt, delivery, receipt in (line.split() for line in lines)
        ]


def check_notes(notes: list[Note]) -> None:
    """No attempt was started twice, none was skipped, and nothing ran on after it was done."""
    starts = [note for note in notes if note.word == "start"]
    twice = [delivery for delivery, count in Counter(note.delivery for note in starts).items() if count > 1]
    assert not twice, f"started twice under one delivery token: {twice}"
    attempts: dict[tuple[str, int], list[int]] = defaultdict(list)
    receipts: dict[tuple[str, int], set[str]] = defaultdict(set)
    for note in starts:
        attempts[note.flow, note.item].append(note.attempt)
        receipts[note.flow, note.item].add(note.receipt)
    for item, made in attempts.items():
        assert len(set(made)) == len(made), f"item {item} made an attempt twice: {made}"
        assert sorted(made) == made, f"item {item} was called again after a later attempt: {made}"
        assert len(receipts[item]) == 1, f"item {item} had several receipt tokens: {receipts[item]}"
