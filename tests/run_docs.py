"""Runs what the documentation shows: `python -m tests.run_docs [--write] PAGE...`.

- A `python` block is executed; the blocks of a page share their names, and so does a hidden `<!-- setup ... -->`.
  No wait between attempts takes time, and the network ends at this machine.
- A block with `file=NAME` after its language is written to that file for the commands of the page.
- An `rd` block is a script: nothing may be wrong with it, unless it says `checked=no`.
- In a `console` block each `$ redrive ...` is run, and what it prints is compared with the lines under it; a line
  `...` stands for any lines. `exit=1` after `console` is the exit code to expect.
- In a `bash` block each `redrive ...` is run, and must end well.

Each page runs in a process of its own; those that are not true are printed.
`--write` puts what commands print now into the page.
"""

import argparse
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import redrive.assembly
import redrive.cli.app  # noqa: F401 - before the forks
from redrive.cli import main as redrive_command
from redrive.testing import no_waits

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$"
    r"|^<!-- setup\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
ANY_LINES = "..."
LOOPBACK = ("127.", "::1", "localhost")


class Block:
    """One fenced block of a page."""

    def __init__(self, page: str, found: "re.Match[str]") -> None:
        self.language = "python" if found["setup"] is not None else found["language"]
        self.part = "setup" if found["setup"] is not None else "body"
        self.body = found[self.part]
        self.start, self.end = found.span(self.part)
        self.line = page.count("\n", 0, self.start) + 1
        self.options = dict(word.split("=", 1) for word in (found["options"] or "").split() if "=" in word)


class Mismatch(AssertionError):
    """The page shows something else than what happens."""


def run_page(path: Path, write: bool) -> None:
    page = path.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__page__"}
    changes: list[tuple[int, int, str]] = []
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, no_waits():
        os.chdir(folder)
        try:
            for block in (Block(page, found) for found in BLOCK.finditer(page)):
                where = f"{path.name}:{block.line}"
                if block.language == "rd" and block.options.get("checked") != "no":
                    _check_script(block.body, where)
                if "file" in block.options:
                    Path(block.options["file"]).write_text(block.body, encoding="utf-8")
                elif block.language == "python":
                    # Empty lines before it, so that a traceback names the line of the page.
                    exec(compile("\n" * (block.line - 1) + block.body, str(path), "exec"), names)  # noqa: S102 - our docs
                elif block.language == "bash":
                    for line in block.body.splitlines():
                        if line.startswith("redrive "):
                            _run(line, expected_exit=0, where=where)
                elif block.language == "console":
                    shown = "\n".join(_session(block, where, write)) + "\n"
                    changes.append((block.start, block.end, shown))
        finally:
            os.chdir(home)
    if write:
        for start, end, shown in reversed(changes):
            page = page[:start] + shown + page[end:]
        path.write_text(page, encoding="utf-8")


def _check_script(text: str, where: str) -> None:
    from redrive.flows.scripts.checking import check
    from redrive.flows.scripts.parsing import parse

    wrong = [one for one in check(parse(text, where)) if one.severity == "error"]
    if wrong:
        raise Mismatch("\n".join(map(str, wrong)))


def _session(block: Block, where: str, write: bool) -> Iterator[str]:
    """The lines of a console block, with what the commands really print when `write` is set."""
    for command, shown in _commands(block.body):
        if command:
            yield f"$ {command}"
        if not command.startswith("redrive "):
            yield from shown
            continue
        printed = _run(command, int(block.options.get("exit", "0")), where)
        if ANY_LINES in shown or not write:
            if not _fits(shown, printed):
                raise Mismatch(f"{where}: {command} printed\n" + "\n".join(printed) + "\nnot\n" + "\n".join(shown))
            yield from shown
        else:
            yield from printed


def _commands(body: str) -> Iterator[tuple[str, list[str]]]:
    command = ""
    shown: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if command or shown:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line.rstrip())
    yield command, shown


def _run(line: str, expected_exit: int, where: str) -> list[str]:
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = redrive_command(shlex.split(line, comments=True)[1:])
    if code != expected_exit:
        raise Mismatch(f"{where}: {line} ended with {code}, not {expected_exit}:\n{output.getvalue()}")
    return [printed.rstrip() for printed in output.getvalue().strip("\n").splitlines()]


def _fits(shown: list[str], printed: list[str]) -> bool:
    pattern = "\n".join("(.*\n)*.*" if line == ANY_LINES else re.escape(line) for line in shown)
    return re.fullmatch(pattern, "\n".join(printed)) is not None


def _stay_on_this_machine(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple) and not _is_local(arguments[1][0]):
        raise Mismatch(f"the documentation must not call {arguments[1][0]}")
    if event == "socket.getaddrinfo" and arguments[0] is not None and not _is_local(arguments[0]):
        raise Mismatch(f"the documentation must not look up {arguments[0]!r}")


def _is_local(host: str | bytes) -> bool:
    text = host.decode() if isinstance(host, bytes) else host
    return text.startswith(LOOPBACK)


def _run_pages(pages: Sequence[Path], write: bool) -> list[Path]:
    """Run each page in a process of its own; return those that are not true.

    The processes are forks, so that each need not import again what all pages use.
    """
    failed = []
    for page in pages:
        if (child := os.fork()) == 0:
            run_page(page, write)
            sys.exit()
        if os.waitpid(child, 0)[1]:
            failed.append(page)
    return failed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run what the documentation shows.")
    parser.add_argument("--write", action="store_true", help="put what commands print now into the pages")
    parser.add_argument("pages", nargs="+", type=Path)
    options = parser.parse_args()
    sys.addaudithook(_stay_on_this_machine)
    failed = _run_pages([one.resolve() for one in options.pages], options.write)
    print(*failed, sep="\n", end="")  # noqa: T201 - what it is for
    sys.exit(bool(failed))
