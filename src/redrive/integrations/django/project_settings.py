"""Reads `REDRIVE` of the project's settings, and finds the store that belongs to a database of the project."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from redrive.worker.settings import WorkerSettings


class ProjectSettings(NamedTuple):
    """`REDRIVE = {"STORE": ..., "DATABASE": ..., "MODULES": [...], "WORKER": {...}}`; each key is optional."""

    STORE: str = ""
    """The store's address; by default the store is in the project's own database."""
    DATABASE: str = "default"
    """Which of `DATABASES` the store is in, unless STORE is given, and whose transactions `start` takes part in."""
    MODULES: tuple[str, ...] = ()
    """Modules with workflows and actions, besides `flows` of each installed app."""
    WORKER: Mapping[str, Any] = {}
    """Settings of the worker, as `redrive.open` takes them: concurrency, threads, queues, lease, grace, ..."""


def project_settings() -> ProjectSettings:
    given = getattr(settings, "REDRIVE", {})
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured('REDRIVE: write a dict, such as {"MODULES": ["shop.flows"]}')
    for key in given:
        if key not in ProjectSettings._fields:
            raise ImproperlyConfigured(f"REDRIVE: {key!r} is not a setting; use {', '.join(ProjectSettings._fields)}")
    checked = ProjectSettings(**given)
    if checked.DATABASE not in list(connections):
        known = ", ".join(connections)
        raise ImproperlyConfigured(f'REDRIVE["DATABASE"]: {checked.DATABASE!r} is not one of DATABASES; use {known}')
    if isinstance(checked.MODULES, str):
        raise ImproperlyConfigured(f'REDRIVE["MODULES"]: write a list, such as [{checked.MODULES!r}]')
    return checked


def worker_settings() -> Mapping[str, Any]:
    """Return `REDRIVE["WORKER"]`; ImproperlyConfigured where a worker would refuse it."""
    given = project_settings().WORKER
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured('REDRIVE["WORKER"]: write a dict, such as {"threads": 8}')
    try:
        WorkerSettings(**given)
    except TypeError as error:
        known = ", ".join(WorkerSettings.__struct_fields__)
        raise ImproperlyConfigured(f'REDRIVE["WORKER"]: {error}; settings are {known}') from None
    except ValueError as error:
        raise ImproperlyConfigured(f'REDRIVE["WORKER"]: {error}') from None
    return given


def store_address() -> str:
    """The address of the project's store; ImproperlyConfigured where its database cannot hold one."""
    given = project_settings()
    return given.STORE or _address_of(given.DATABASE)


def _address_of(alias: str) -> str:
    connection = connections[alias]
    # Not settings.DATABASES: a test's database has another name.
    database = connection.settings_dict
    name = str(database["NAME"])
    if connection.vendor == "sqlite" and not _is_in_memory(name):
        return f"sqlite:///{os.path.abspath(name)}"
    if connection.vendor == "postgresql" and name:
        options = {key: value for key, value in database["OPTIONS"].items() if key.startswith("ssl")}
        host, port = str(database["HOST"]), str(database["PORT"])
        if not host or host.startswith("/"):
            options = {"host": host or "/var/run/postgresql", "port": port or "5432", **options}
            host = port = ""
        user, password = quote(str(database["USER"]), safe=""), quote(str(database["PASSWORD"]), safe="")
        login = f"{user}{':' if password else ''}{password}@" if user else ""
        where = f"{login}{host}{':' if port else ''}{port}"
        return f"postgresql://{where}/{quote(name, safe='')}{'?' if options else ''}{urlencode(options)}"
    raise ImproperlyConfigured(
        f"REDRIVE: the database {alias!r} cannot hold the store ({connection.vendor}, {name or 'without a name'}); "
        'set REDRIVE = {"STORE": "postgresql://user@host/database"} or {"STORE": "sqlite:///file.db"}; '
        'for tests, {"STORE": "memory://"}'
    )


def _is_in_memory(name: str) -> bool:
    return name == ":memory:" or "mode=memory" in name
