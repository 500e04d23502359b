"""Settings for all tests."""

import functools
import gc
import os
import ssl

import pytest
from hypothesis import HealthCheck, settings
from tests.dashboard.browsers import HOW, chromium

# CI machines are shared and slow at times; a rule that holds does so whatever the clock says.
settings.register_profile(
    "redrive",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("REDRIVE_EXAMPLES", "15")),
)
settings.load_profile("redrive")

# Every HTTP client reads all certificates of the world, which takes longer than most tests; no test needs its own.
ssl.create_default_context = functools.cache(ssl.create_default_context)  # type: ignore[assignment]  # its arguments hash

# What takes longest begins first, so that nobody waits for it alone at the end.
LONG = (
    "tests/worker/test_killed_workers.py",
    "tests/test_docs.py",
    "tests/cli/",
    "tests/runners/test_process_pool.py",
    "tests/end_to_end/",
    "tests/test_demo.py",
    "tests/server/",
    "tests/flows/scripts/",
    "tests/worker/test_scripts.py",
    "tests/worker/test_store_faults.py",
    "tests/stores/test_postgres_faults.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: next((place for place, name in enumerate(LONG) if item.nodeid.startswith(name)), 99))


def pytest_collection_finish() -> None:
    # Thousands of tests are many objects; a full collection, which many a test asks for, would go through them all.
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if chromium() is None and any(HOW in str(one.longrepr) for one in terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(f"skipped: {HOW}")


def pytest_configure(config: pytest.Config) -> None:
    # Because redrive brings a plugin, pytest would rewrite the asserts of all its modules, in every process.
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    getattr(hook, "_must_rewrite", set()).discard("redrive")
