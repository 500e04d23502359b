"""The blocks of the README, and what they must print."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.wheel_install import ROOT

README = ROOT / "README.md"
DEMO = "redrive demo"
BLOCK = re.compile(
    r"^```(?P<language>\w+)(?P<options>[^\n]*)\n(?P<body>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
# What differs between two runs: times, durations and ids.
DIFFERENT = re.compile(r"\d\d:\d\d:\d\d\.\d+|\+?\b\d+(\.\d+)? ?(ms|s)\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


class Block(NamedTuple):
    language: str
    extra: str
    body: str
    output: str | None
    line: int


def blocks() -> Iterator[Block]:
    text = README.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        extra = re.search(r"extra=(\w+)", found["options"])
        line = text.count("\n", 0, found.start()) + 1
        yield Block(found["language"], extra[1] if extra else "", found["body"], found["output"], line)


def comparable(text: str) -> list[str]:
    return [" ".join(DIFFERENT.sub("#", line).split()) for line in text.strip("\n").splitlines()]


def check_output(shown: str, printed: str) -> None:
    """Times and ids may differ; `...` stands for the rest of a line, or for any lines when it is one of its own."""
    pattern = "\n".join(
        "(.*\n)*.*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") for line in comparable(shown)
    )
    assert re.fullmatch(pattern, "\n".join(comparable(printed))), f"printed\n{printed}\nnot\n{shown}"
