"""Settings for all tests."""

import functools
import gc
import os
import ssl
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.dashboard.browsers import HOW, chromium

from redrive.calls.shared_dependencies import DEPENDENCIES
from redrive.flows.schedules.declared import DECLARED
from redrive.flows.scripts.script import SCRIPTS
from redrive.resilience.dependencies import Dependency

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

# What takes longest begins first, so that nobody waits for it alone at the end. Files that mostly wait for processes
# stand beside files that compute.
LONG = (
    "tests/chaos/test_storms.py",
    "tests/dashboard/",
    "tests/worker/test_kill_storms.py",
    "tests/testing/test_fleet_simulator.py",
    "tests/worker/test_held_loop.py",
    "tests/client/test_django_project.py",
    "tests/worker/test_killed_workers.py",
    "tests/test_docs.py",
    "tests/client_failures/test_client_failures.py",
    "tests/cli/test_worker_command.py",
    "tests/test_demo.py",
    "tests/end_to_end/",
    "tests/server/test_openapi.py",
    "tests/cli/",
    "tests/test_benchmarks.py",
    "tests/test_night_outage.py",
    "tests/pipeline/test_many_runs.py",
    "tests/worker/test_recovery.py",
    "tests/client/test_sync_app.py",
    "tests/stores/test_postgres_failover.py",
    "tests/worker/test_crash_loops.py",
    "tests/runners/test_process_pool.py",
    "tests/test_readme.py",
    "tests/test_engine_benchmark.py",
    "tests/worker/test_chaos.py",
    "tests/test_import_cycles.py",
    "tests/integrations/test_temporal.py",
    "tests/integrations/chain/",
    "tests/worker/test_store_faults.py",
    "tests/stores/test_postgres_faults.py",
    "tests/server/",
    "tests/flows/scripts/",
    "tests/worker/test_scripts.py",
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _keep_failed(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _keep_failed(report)


def _keep_failed(report: pytest.TestReport | pytest.CollectReport) -> None:
    # `.ci/run` runs these once more, and names those that pass then.
    if report.failed and (kept := os.environ.get("REDRIVE_FAILED_TESTS")) and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(kept, "a") as file:
            file.write(report.nodeid + "\n")


@pytest.fixture(autouse=True)
def _defined_for_one_test() -> Iterator[None]:
    """Dependencies, scripts and schedules belong to the process: what one test or module defines is not for all."""
    before, scripts, declared = dict(DEPENDENCIES._defined), dict(SCRIPTS.by_name), dict(DECLARED)
    DECLARED.clear()
    _forget(DEPENDENCIES._defined)
    yield
    _forget(DEPENDENCIES._defined)
    DEPENDENCIES._defined.update(before)
    DECLARED.clear()
    DECLARED.update(declared)
    if SCRIPTS.by_name.keys() != scripts.keys():
        SCRIPTS.by_name.clear()
        SCRIPTS.by_name.update(scripts)


def _forget(defined: dict[str, Dependency]) -> None:
    for name in defined:
        DEPENDENCIES._alive.pop(name, None)
    defined.clear()
