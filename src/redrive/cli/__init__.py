"""The command line: one file per command, put together in `app`, and loaded only when it is used."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from redrive.cli.exit_codes import BAD_INPUT, BROKEN_PIPE, INTERRUPTED


def _open_what_is_closed() -> None:
    """Else the first files that are opened take the places of standard input and error, and are used as such."""
    for place in (0, 2):
        try:
            os.fstat(place)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 good, 1 for what the command itself reports, 2 for bad input."""
    from redrive.cli.app import run

    if sys.stdout is None:
        os.write(2, b"redrive: standard output is closed; there is nowhere to write the answer\n")
        return BAD_INPUT
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character gets its number, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # A full disk, say. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(2, f"redrive: cannot write the answer: {error.strerror or error}\n".encode())
        return BAD_INPUT
    return code
