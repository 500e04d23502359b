"""A real Django project, its manage.py and its worker, on SQLite and on PostgreSQL."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.postgres_server import shared_server

PATIENCE = 60.0

SETTINGS = """
SECRET_KEY = "for tests"
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = ["redrive.integrations.django", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DATABASES = {databases}
REDRIVE = {redrive}
"""
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
MODELS = """
from django.db import models

class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    state = models.CharField(max_length=20, default="new")
"""
FLOWS = """
import logging
import redrive
from django.db import connection
from shop.models import Order

@redrive.action
def ship(number: str) -> str:
    logging.getLogger("shop").info("packing %s", number)
    Order.objects.filter(number=number).update(state="shipped")
    return f"shipped {number}"

@redrive.action
def unlucky() -> int:
    attempt = redrive.current_attempt().number
    if attempt == 1:
        # As when the server is restarted: the connection of this thread is broken.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    Order.objects.count()
    return attempt

@redrive.workflow
class Shipping(redrive.Workflow):
    async def run(self, number: str) -> str:
        return await self.run_action(ship(number))
"""
URLS = """
from django.db import transaction
from django.http import JsonResponse
from django.urls import path
from redrive.integrations.django import redrive_app, start
from shop.flows import Shipping
from shop.models import Order

@transaction.atomic
def order(request, number):
    Order.objects.create(number=number)
    handle = start(Shipping.call(number), key=number)
    if request.GET.get("fails"):
        raise ValueError("the card was declined")
    return JsonResponse({"flow": handle.id if handle else None})

def explained(request, flow):
    return JsonResponse({"status": redrive_app().find(flow).status})

urlpatterns = [path("order/<number>", order), path("flows/<flow>", explained)]
"""


class Project:
    def __init__(self, folder: Path, databases: dict[str, object], redrive: dict[str, object]) -> None:
        self._folder = folder
        self.configure(databases, redrive)
        shop = folder / "shop"
        shop.mkdir()
        for name, text in (("manage", MANAGE), ("shop/__init__", ""), ("shop/models", MODELS)):
            (folder / f"{name}.py").write_text(text)
        (shop / "flows.py").write_text(FLOWS)
        (shop / "urls.py").write_text(URLS)

    def configure(self, databases: dict[str, object], redrive: dict[str, object]) -> None:
        text = SETTINGS.format(databases=databases, redrive=redrive)
        (self._folder / "settings.py").write_text(text)

    def manage(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-W", "error", "manage.py", *arguments]
        return subprocess.Popen(  # noqa: S603 - our own project
            command, cwd=self._folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, script: str) -> list[str]:
        setup = "import django; django.setup()\n"
        finished = subprocess.run(  # noqa: S603 - our own script
            [sys.executable, "-W", "error", "-c", setup + textwrap.dedent(script)],
            cwd=self._folder,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.splitlines()


def databases_of(kind: str, folder: Path, template: str = "template0") -> dict[str, object]:
    if kind == "sqlite":
        default = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "shop.db")}
    else:
        url = urlsplit(shared_server().fresh_database(template))
        default = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path.strip("/"),
            "USER": url.username or "",
            "HOST": url.hostname or "",
            "PORT": str(url.port),
        }
    return {"default": default}


class Migrated(NamedTuple):
    """A database made by `manage.py migrate`, which takes longer than most tests: they begin with copies of it."""

    kind: str
    folder: Path
    databases: dict[str, Any]

    def copied_to(self, folder: Path) -> dict[str, object]:
        if self.kind == "sqlite":
            for file in self.folder.glob("shop.db*"):
                shutil.copy(file, folder)
            return databases_of(self.kind, folder)
        return databases_of(self.kind, folder, template=self.databases["default"]["NAME"])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def migrated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Migrated:
    folder = tmp_path_factory.mktemp("migrated")
    databases = databases_of(request.param, folder)
    project = Project(folder, databases, {})
    migrate = project.manage("migrate", "--run-syncdb")
    _, errors = migrate.communicate(timeout=PATIENCE)
    assert migrate.returncode == 0, errors
    assert project.run(TABLE_OF_FLOWS) == ["created"]
    return Migrated(request.param, folder, databases)


@pytest.fixture
def project(migrated: Migrated, tmp_path: Path) -> Project:
    return Project(tmp_path, migrated.copied_to(tmp_path), {})


# Before anything opens the store.
TABLE_OF_FLOWS = """
from django.db import connection

sqlite = "SELECT count(*) FROM sqlite_master WHERE name = 'flows'"
postgresql = "SELECT count(*) FROM pg_tables WHERE tablename = 'flows'"
with connection.cursor() as cursor:
    cursor.execute(sqlite if connection.vendor == "sqlite" else postgresql)
    print("created" if cursor.fetchone() == (1,) else "missing")
"""


ORDERS = """
from django.test import Client
from redrive.integrations.django import redrive_app
from shop.models import Order

client = Client(raise_request_exception=False)
assert client.get("/order/a-1?fails=1").status_code == 500
assert redrive_app().flows() == []
flow = client.get("/order/a-2").json()["flow"]
assert [one.id for one in redrive_app().flows()] == [flow]
assert [one.number for one in Order.objects.all()] == ["a-2"]
assert client.get(f"/flows/{flow}").json() == {"status": "ready"}
print(flow)
"""


@pytest.mark.promise("L6")
def test_a_view_starts_a_flow_with_its_transaction_and_the_worker_of_manage_py_runs_it(project: Project) -> None:
    (flow,) = project.run(ORDERS)
    worker = project.manage("redrive_worker", "--grace", "1s", "--health", "0")
    try:
        assert worker.stdout is not None
        ready = worker.stdout.readline()
        assert "ready" in ready, worker.communicate()
        health = ready.rpartition("health ")[2].strip()
        with urllib.request.urlopen(f"{health}/readyz", timeout=PATIENCE) as probe:  # noqa: S310 - our own worker
            assert probe.status == 200
        said = project.run(f"""
            from redrive.integrations.django import redrive_app
            from shop.models import Order

            print(redrive_app().handle("{flow}").result(timeout=30))
            print(*[one.state for one in Order.objects.all()])
            """)
        assert said == ["shipped a-2", "shipped"]
    finally:
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=PATIENCE)
    assert worker.returncode == 0, errors
    (line,) = errors.splitlines()
    assert line.endswith(f" INFO flow {flow} step ship attempt 1: packing a-2")


LOGGING = """
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"own": {"format": "OWN %(message)s"}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
    "loggers": {"redrive": {"handlers": ["own"]}, "shop": {"handlers": ["own"], "level": "INFO"}},
}
"""


def test_the_worker_logs_as_the_project_says_and_names_the_flow(tmp_path: Path) -> None:
    project = Project(tmp_path, databases_of("sqlite", tmp_path), {})
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write(LOGGING)
    assert project.manage("migrate", "--run-syncdb").communicate(timeout=PATIENCE)[1] == ""
    worker = project.manage("redrive_worker")
    try:
        (flow,) = project.run("""
            from redrive.integrations.django import start
            from shop.flows import Shipping

            handle = start(Shipping.call("a-3"))
            handle.result(timeout=30)
            print(handle.id)
            """)
    finally:
        worker.terminate()
        _, errors = worker.communicate(timeout=PATIENCE)
    assert errors.splitlines() == [f"OWN flow {flow} step ship attempt 1: packing a-3"]


def test_an_attempt_does_not_inherit_a_broken_connection(tmp_path: Path) -> None:
    project = Project(tmp_path, databases_of("postgresql", tmp_path), {})
    assert project.manage("migrate", "--run-syncdb").communicate(timeout=PATIENCE)[1] == ""
    worker = project.manage("redrive_worker", "--threads", "1")
    try:
        said = project.run("""
            from redrive.integrations.django import start
            from shop.flows import unlucky

            print(start(unlucky()).result(timeout=40))
            """)
        assert said == ["2"]
    finally:
        worker.terminate()
        worker.communicate(timeout=PATIENCE)


@pytest.mark.promise("L6")
def test_djangos_connection_is_taken_by_open_sync_and_refused_outside_a_transaction(project: Project) -> None:
    said = project.run("""
        from django.db import connection, connections, transaction
        from redrive.integrations.django import redrive_app, start
        from shop.flows import Shipping

        app = redrive_app()
        try:
            app.start(Shipping.call("1"), connection=connection)
        except ValueError as error:
            print(error)
        try:
            with transaction.atomic():
                undone = app.start(Shipping.call("1"), connection=connection)
                raise KeyError
        except KeyError:
            pass
        with transaction.atomic():
            with transaction.atomic():
                done = app.start(Shipping.call("2"), connection=connections["default"])
        at_once = start(Shipping.call("3"))
        assert {one.id for one in app.flows()} == {done.id, at_once.id}
        """)
    (refused,) = said
    assert "no transaction open, so a rollback would not remove the flow; write `with transaction.atomic():`" in refused


@pytest.mark.promise("L6")
def test_where_the_store_is_elsewhere_the_flow_starts_after_the_commit(project: Project, tmp_path: Path) -> None:
    settings = (tmp_path / "settings.py").read_text()
    (tmp_path / "settings.py").write_text(f"{settings}\nREDRIVE = {{'STORE': 'sqlite:///{tmp_path}/flows.db'}}\n")
    project.run("""
        from django.db import transaction
        from redrive.integrations.django import redrive_app, start
        from shop.flows import Shipping
        from shop.models import Order

        try:
            with transaction.atomic():
                Order.objects.create(number="1")
                assert start(Shipping.call("1")) is None
                raise KeyError
        except KeyError:
            pass
        assert redrive_app().flows() == []
        with transaction.atomic():
            Order.objects.create(number="2")
            assert start(Shipping.call("2"), key="2") is None
            assert redrive_app().flows() == []
        (flow,) = redrive_app().flows()
        assert flow.key == "2"
        """)


def test_each_forked_process_has_its_own_app(project: Project) -> None:
    said = project.run("""
        import os, warnings
        from django.db import connections
        from redrive.integrations.django import redrive_app, start
        from shop.flows import Shipping

        warnings.simplefilter("ignore", DeprecationWarning)
        start(Shipping.call("1"), key="1")
        connections.close_all()
        child = os.fork()
        if child == 0:
            start(Shipping.call("2"), key="2")
            redrive_app().close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(sorted(one.key for one in redrive_app().flows()))
        """)
    assert said == ["['1', '2']"]


WRONG = {
    "REDRIVE: 'STOER' is not a setting; use STORE, DATABASE, MODULES, WORKER": {"STOER": "x"},
    "REDRIVE: write a dict": ["shop.flows"],
    'REDRIVE["WORKER"]: threads: 0 is not allowed': {"WORKER": {"threads": 0}},
    'REDRIVE["WORKER"]: write a dict': {"WORKER": ["threads"]},
    "REDRIVE[\"WORKER\"]: Unexpected keyword argument 'wrokers'; settings are queues, concu": {
        "WORKER": {"wrokers": 3}
    },
    'REDRIVE["WORKER"]: ': {"WORKER": {"default_policy": "retry: often"}},
    "REDRIVE[\"DATABASE\"]: 'oter' is not one of DATABASES; use default": {"DATABASE": "oter"},
    "REDRIVE[\"MODULES\"]: write a list, such as ['shop.flows']": {"MODULES": "shop.flows"},
    "there is no module 'shop.flwos'; write its dotted name": {"MODULES": ["shop.flwos"]},
    "mysql:// is not a kind of store": {"STORE": "mysql://host/app"},
}


def test_wrong_settings_are_told_in_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path, databases_of("sqlite", tmp_path), {})
    said = project.run(f"""
        from django.core.management import CommandError, call_command
        from django.test import override_settings

        for given in {list(WRONG.values())}:
            with override_settings(REDRIVE=given):
                try:
                    call_command("redrive_worker")
                except CommandError as error:
                    print(error)
        """)
    assert len(said) == len(WRONG)
    for told, says in zip(said, WRONG, strict=True):
        assert says in told
    project.configure(databases_of("sqlite", tmp_path), {"STOER": "x"})
    worker = project.manage("redrive_worker")
    assert "REDRIVE: 'STOER' is not a setting" in worker.communicate(timeout=PATIENCE)[1].splitlines()[-1]
    assert worker.returncode == 1


def test_wrong_options_of_the_worker_are_told_in_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path, databases_of("sqlite", tmp_path), {})
    for option, value, says in (("--health", "here", "is not an address; use a port"), ("--lease", "soon", "lease: ")):
        worker = project.manage("redrive_worker", option, value)
        (line,) = worker.communicate(timeout=PATIENCE)[1].splitlines()
        assert says in line
        assert worker.returncode == 1


def test_a_database_in_memory_cannot_hold_the_store(tmp_path: Path) -> None:
    in_memory: dict[str, object] = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    project = Project(tmp_path, in_memory, {})
    migrated = project.manage("migrate", "--run-syncdb")
    assert migrated.communicate(timeout=PATIENCE)[1] == ""
    _, errors = project.manage("redrive_worker").communicate(timeout=PATIENCE)
    assert 'set REDRIVE = {"STORE": "postgresql://user@host/database"}' in errors


TESTS = """
from django.test import TestCase, TransactionTestCase
from redrive.integrations.django import redrive_app
from shop.flows import Shipping, ship
from shop.models import Order

class WholeFlow(TransactionTestCase):
    def tearDown(self):
        redrive_app().close()

    def test_an_order_is_shipped(self):
        self.client.get("/order/a-1")
        (flow,) = redrive_app().flows()
        self.assertEqual(redrive_app().handle(flow.id).result(timeout="30s"), "shipped a-1")
        self.assertEqual(Order.objects.get().state, "shipped")

    def test_the_next_test_has_a_store_of_its_own(self):
        self.assertEqual(redrive_app().flows(), [])

class WithoutCommit(TestCase):
    def tearDown(self):
        redrive_app().close()

    def test_an_order_starts_a_flow(self):
        with self.captureOnCommitCallbacks(execute=True):
            self.client.get("/order/a-1")
        self.assertEqual([flow.key for flow in redrive_app().flows()], ["a-1"])

    def test_an_action_is_a_function(self):
        Order.objects.create(number="a-2")
        self.assertEqual(ship.function("a-2"), "shipped a-2")
        self.assertEqual(Order.objects.get().state, "shipped")
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_project_tests_its_flows_with_a_store_in_memory(kind: str, tmp_path: Path) -> None:
    project = Project(tmp_path, databases_of(kind, tmp_path), {"STORE": "memory://"})
    (tmp_path / "shop" / "tests.py").write_text(TESTS)
    tests = project.manage("test")
    _, errors = tests.communicate(timeout=PATIENCE)
    assert tests.returncode == 0, errors
    assert "Ran 4 tests" in errors


ADDRESSES: dict[str, dict[str, object]] = {
    "postgresql://app@db:5433/shop": {"NAME": "shop", "USER": "app", "HOST": "db", "PORT": "5433"},
    "postgresql://o%40x:p%2F%3A%3F@db/a%20b?sslmode=require": {
        "NAME": "a b",
        "USER": "o@x",
        "PASSWORD": "p/:?",
        "HOST": "db",
        "OPTIONS": {"sslmode": "require"},
    },
    "postgresql:///shop?host=%2Frun%2Fpg&port=5432": {"NAME": "shop", "HOST": "/run/pg"},
}


def test_the_address_of_the_store_is_that_of_the_database(tmp_path: Path) -> None:
    databases: dict[str, object] = {
        address: {"ENGINE": "django.db.backends.postgresql", **database} for address, database in ADDRESSES.items()
    }
    project = Project(tmp_path, {"default": {}, **databases}, {})
    said = project.run(f"""
        from django.test import override_settings
        from redrive.integrations.django.project_settings import store_address

        for alias in {list(ADDRESSES)}:
            with override_settings(REDRIVE={{"DATABASE": alias}}):
                print(store_address())
        """)
    assert said == list(ADDRESSES)
