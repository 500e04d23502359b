"""Lints the policies in a Python file, and the code around them."""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from redrive.notation.linting.findings import RULES, Finding
from redrive.notation.linting.linter import lint
from redrive.notation.linting.second_owners import second_owners
from redrive.notation.python_source.read_source import SourceReading, read_source
from redrive.notation.reading import Reading
from redrive.policies.policy import Policy


class CodeProblem(Protocol):
    """What a rule about code has found."""

    @property
    def line(self) -> int: ...

    @property
    def message(self) -> str: ...

    @property
    def advice(self) -> str: ...


SourceRule = Callable[[ast.Module], Iterable[CodeProblem]]
"""Looks at the code of a module, not at one policy."""

SOURCE_RULES: Mapping[str, SourceRule] = {"RD022": second_owners}
"""The rules about code, by their id in RULES."""


def lint_source(
    text: str, source: str = "<text>", inside: Reading | Policy | None = None
) -> tuple[list[Finding], SourceReading]:
    """Lint a Python file. Returns the findings, and what was read.

    `inside`: the policy of an outer call that encloses the ones in the file.
    """
    found = read_source(text, source)
    findings = [
        Finding(id=id, severity=RULES[id].severity, key="code", line=one.line, text=one.message, instead=one.advice)
        for id, rule in SOURCE_RULES.items()  # noqa: A001 - the name of the field it fills
        for one in rule(found.tree)
    ]
    outer: dict[int, Reading] = {}
    for one in found.policies:
        around = None if one.function is None else outer.get(id(one.function))
        findings += lint(one.reading, around or inside)
        if one.function is not None:
            outer[id(one.function)] = one.reading
    # A class of Celery tasks and the tasks based on it have settings in common.
    findings = list(dict.fromkeys(findings))
    return sorted(findings, key=lambda finding: (finding.line or 0, finding.id)), found
