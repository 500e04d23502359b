"""`redrive` with a wall clock that a storm can set: python -m tests.chaos.worker OFFSET_FILE COMMAND..."""

import mmap
import struct
import sys
import time
from pathlib import Path

SIZE = 8


def set_clock(file: Path, seconds: float) -> None:
    """Set the clock of the process that has this file: so many seconds off the machine's."""
    file.write_bytes(struct.pack("d", seconds))


def follow(file: Path) -> None:
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), SIZE, access=mmap.ACCESS_READ)
    real = time.time

    def shifted() -> float:
        shift: float = struct.unpack_from("d", offset)[0]
        return real() + shift

    time.time = shifted


if __name__ == "__main__":
    follow(Path(sys.argv[1]))
    del sys.argv[1]
    # Imported once the clock is in place.
    from tests.chaos import effects

    from redrive.cli import main
    from redrive.worker.maintenance.held_lease import HeldLease

    may_call = HeldLease.may_call

    def noted(held: HeldLease) -> bool:
        allowed = may_call(held)
        effects.checked()
        return allowed

    HeldLease.may_call = noted  # type: ignore[method-assign, assignment]  # to know when it was asked

    main()
