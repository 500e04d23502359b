"""`manage.py redrive_worker`: run the project's flows until told to stop."""

import sys
from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import autodiscover_modules

from redrive.assembly import store_at
from redrive.cli.bad_input import BadInput
from redrive.cli.options.shared import read_health
from redrive.cli.processes.event_loop import exit_code, run_in_loop
from redrive.cli.processes.worker_process import work
from redrive.errors import StoreError
from redrive.integrations.django.attempt_connections import keep_connections_fresh
from redrive.integrations.django.project_settings import project_settings, store_address, worker_settings
from redrive.integrations.django.worker_logging import log_flows
from redrive.worker.settings import WorkerSettings


class Command(BaseCommand):  # type: ignore[misc]  # Django has no annotations
    """Loads `flows` of each installed app and the modules of REDRIVE, and runs a worker."""

    help = (
        "Run the flows of this project until SIGTERM or Ctrl-C. Loads the module `flows` of each installed app, "
        'those of REDRIVE["MODULES"], and those named here. Log lines go to stderr, unless LOGGING says otherwise.'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("modules", nargs="*", metavar="MODULE", help="more modules with workflows and actions")
        parser.add_argument("--queue", action="append", dest="queues", metavar="NAME", help="claim only this queue")
        parser.add_argument("--concurrency", type=int, help="coroutine actions that may run at once")
        parser.add_argument("--threads", type=int, help="plain functions that may run at once")
        parser.add_argument("--lease", metavar="DURATION", help="a worker silent for this long loses its flows")
        parser.add_argument("--grace", metavar="DURATION", help="time for running attempts to finish at shutdown")
        parser.add_argument("--keep-finished", metavar="DURATION", help="prune finished flows after this time")
        parser.add_argument(
            "--health", default="", metavar="[HOST:]PORT", help="serve /healthz, /readyz and /metrics here"
        )

    def handle(self, *_: Any, **options: Any) -> None:
        try:
            given = project_settings()
            settings = {**worker_settings(), **{name: options[name] for name in _OPTIONS if options[name] is not None}}
            checked = WorkerSettings(**settings)
            store = store_at(store_address())
            health = read_health(options["health"])
        except (ValueError, ImproperlyConfigured, StoreError, BadInput) as error:
            raise CommandError(str(error)) from error
        _load(*given.MODULES, *options["modules"])
        keep_connections_fresh()
        log_flows()
        try:
            code = run_in_loop(work(store, {**settings, "queues": checked.queues}, supervised=False, health=health))
        except (StoreError, BadInput) as error:
            raise CommandError(str(error)) from error
        sys.exit(exit_code(code))


_OPTIONS = ("queues", "concurrency", "threads", "lease", "grace", "keep_finished")


def _load(*modules: str) -> None:
    autodiscover_modules("flows")
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
            raise CommandError(f"there is no module {module!r}; write its dotted name") from None
