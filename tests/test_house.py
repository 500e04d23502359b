"""What holds for the code as a whole: what an import loads, which names are public, that exceptions have reasons."""

import importlib
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import redrive
from redrive import errors

ROOT = Path(__file__).parents[1]
PUBLIC_NAMES = ROOT / "tests" / "public_names.txt"
PUBLIC_MODULES = (
    "redrive",
    "redrive.codecs",
    "redrive.errors",
    "redrive.failures",
    "redrive.handlers",
    "redrive.integrations.aiohttp",
    "redrive.integrations.anthropic",
    "redrive.integrations.asgi",
    "redrive.integrations.botocore",
    "redrive.integrations.celery",
    "redrive.integrations.django",
    "redrive.integrations.fastapi",
    "redrive.integrations.google",
    "redrive.integrations.httpx",
    "redrive.integrations.httpx2",
    "redrive.integrations.langgraph",
    "redrive.integrations.llm",
    "redrive.integrations.logging",
    "redrive.integrations.openai",
    "redrive.integrations.opentelemetry",
    "redrive.integrations.ownership",
    "redrive.integrations.prometheus",
    "redrive.integrations.pydantic_ai",
    "redrive.integrations.requests",
    "redrive.integrations.stripe",
    "redrive.integrations.temporal",
    "redrive.integrations.urllib3",
    "redrive.integrations.wsgi",
    "redrive.notation",
    "redrive.pipeline",
    "redrive.policies",
    "redrive.resilience",
    "redrive.testing",
)
MOST_TOP_LEVEL_NAMES = 58
LONGEST_MODULE = 400

LOADED_WHEN_USED = (
    "yaml",
    "typer",
    "click",
    "rich",
    "asyncio",
    "trio",
    "httpx",
    "httpx2",
    "requests",
    "aiohttp",
    "cryptography",
    "openai",
    "anthropic",
    "mcp",
    "opentelemetry",
    "sqlalchemy",
    "django",
    "celery",
    "temporalio",
    "litestar",
    "uvicorn",
    "simpleeval",
    "lark",
    "prometheus_client",
    "pytest",
    "redrive.testing",
    "redrive.notation",
    "redrive.pipeline",
    "redrive.cli",
)

SYNC_USE = """
import redrive

calls = 0

@redrive.retry(backoff=0, jitter="none", floor=0)
def flaky():
    global calls
    calls += 1
    if calls < 3:
        raise ConnectionError
    return calls

assert flaky() == 3
assert redrive.Retrier(dependency="house").call(len, "abc") == 3
for attempt in redrive.attempts():
    with attempt:
        pass
"""


@pytest.mark.parametrize("use", ["import redrive", SYNC_USE], ids=["import", "sync use"])
def test_heavy_modules_are_loaded_only_when_used(use: str) -> None:
    script = f"{use}\nimport sys\nprint(*sorted(set({LOADED_WHEN_USED!r}) & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)  # noqa: S603 - our own script
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == []


def public_names(module: ModuleType) -> list[str]:
    """The names in `__all__`, without which strict type checkers refuse them to users."""
    names: list[str] = module.__all__
    return [f"{module.__name__}.{name}" for name in sorted(names) if not name.startswith("__")]


def test_public_names_are_the_ones_in_the_list() -> None:
    """A name that is added or removed changes the promise to users, so the change must show in the list."""
    found = [name for module in PUBLIC_MODULES for name in public_names(importlib.import_module(module))]
    listed = PUBLIC_NAMES.read_text(encoding="utf-8").split()
    assert found == listed, "update tests/public_names.txt, and the changelog if a name went away"


SIGNALS = {"Permanent", "RetryAfter", "Snooze"}


def test_every_error_is_a_redrive_error_and_is_drawn_in_the_tree() -> None:
    """Names end in Error, except for the signals that user code raises."""
    drawn = re.findall(r"[├└]── (\w+Error|Permanent|RetryAfter|Snooze)\b", errors.__doc__ or "")
    assert drawn == list(dict.fromkeys(drawn)), "drawn once each"
    elsewhere = {"HttpStepError", "PipelineFailedError", "StageReportedError"}
    assert {*drawn, "RedriveError"} == {*errors.__all__, *elsewhere}
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.RedriveError)
        assert name.endswith("Error") or name in SIGNALS


@pytest.mark.parametrize(
    "error",
    [
        errors.AttemptTimeoutError(2.0),
        errors.CircuitOpenError("payments", 3.0),
        errors.RetryAfter("30s", "busy"),
        errors.FlowNotFoundError("f-1", "sqlite:///app.db"),
        errors.NotationError("text", problem="unknown", key="retries", line=3),
        errors.UnknownDefinitionError("workflow", "Biling", "did you mean 'Billing'?"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: errors.RedriveError) -> None:
    error.add_note("seen by the caller")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_dir_lists_the_public_names_and_modules() -> None:
    assert len(redrive.__all__) <= MOST_TOP_LEVEL_NAMES
    assert {*redrive.__all__} <= {*dir(redrive)}
    assert {name.split(".")[1] for name in PUBLIC_MODULES[1:]} <= {*dir(redrive)}
    for name in dir(redrive):
        assert getattr(redrive, name) is not None
    with pytest.raises(AttributeError, match="module 'redrive' has no attribute 'retri'"):
        redrive.retri  # type: ignore[attr-defined]  # noqa: B018 - that is the point


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_no_module_has_two_jobs() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files("src")
        if path != ROOT / "src/redrive/errors.py"  # one tree of exceptions, and nothing else
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    }
    assert not long, f"more than {LONGEST_MODULE} lines: split what has two jobs"


UNEXPLAINED = {
    "noqa": re.compile(r"#\s*noqa(?!:\s*[A-Z]+[0-9]+(\s*,\s*[A-Z]+[0-9]+)*\s+-\s+\S)"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore(?!\[[\w,\s-]+\]\s+#\s+\S)"),
}


@pytest.mark.parametrize(
    ("mark", "folders"),
    [
        ("noqa", ("src", "benchmarks", "examples", "tests")),
        # In tests a wrong type is often the very thing that is tried.
        ("type: ignore", ("src", "benchmarks", "examples")),
    ],
)
def test_every_exception_to_the_rules_has_its_reason_beside_it(mark: str, folders: tuple[str, ...]) -> None:
    unexplained = []
    for path in python_files(*folders):
        above = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            # A reason too long for the line stands in a comment right above it.
            if UNEXPLAINED[mark].search(line) and not above.lstrip().startswith("# "):
                unexplained.append(f"{path.relative_to(ROOT)}:{number}")
            above = line
    assert [where for where in unexplained if not where.startswith("tests/test_house.py")] == []


@pytest.mark.parametrize(
    ("line", "explained"),
    [
        ("x  # noqa: S101 - narrows for mypy", True),
        ("x  # noqa: S101, BLE001 - two of them", True),
        ("x  # noqa: S101", False),
        ("x  # noqa", False),
        ("x  # type: ignore[misc]  # the library has no types", True),
        ("x  # type: ignore[misc]", False),
        ("x  # type: ignore", False),
    ],
)
def test_an_unexplained_exception_is_found(line: str, explained: bool) -> None:
    assert any(pattern.search(line) for pattern in UNEXPLAINED.values()) is not explained
