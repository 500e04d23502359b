"""The command line: each command in `commands`, assembled in `app`, and loaded only when used."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from redrive.cli.exit_codes import BAD_INPUT, BROKEN_PIPE, INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 for success, 1 if the command reports a problem, 2 for bad input."""
    from redrive.cli.app import run

    if sys.stdout is None:
        os.write(2, b"redrive: standard output is closed; there is nowhere to write the output\n")
        return BAD_INPUT
    _reopen_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character gets its code point, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # A full disk, for example. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(2, f"redrive: cannot write the output: {error.strerror or error}\n".encode())
        return BAD_INPUT
    return code


def _reopen_closed_streams() -> None:
    """Open closed standard streams on /dev/null, so that no other file gets their descriptors."""
    for descriptor in (0, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
