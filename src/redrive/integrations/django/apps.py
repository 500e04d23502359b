"""The Django app: it checks the settings, and has `manage.py migrate` create the store's tables."""

from typing import Any

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate

from redrive.assembly import open_sync
from redrive.integrations.django.project_settings import project_settings, store_address, worker_settings


class RedriveConfig(AppConfig):  # type: ignore[misc]  # Django has no annotations
    name = "redrive.integrations.django"
    label = "redrive"
    verbose_name = "redrive"

    def ready(self) -> None:
        worker_settings()
        post_migrate.connect(create_tables, sender=self)


def create_tables(using: str, **_: Any) -> None:
    """Create or migrate the tables of the store. While a transaction of SQLite is open, they could not be created."""
    if using != project_settings().DATABASE:
        return
    try:
        address = store_address()
    except ImproperlyConfigured:
        # Such as a test's database in memory. Whoever starts a flow there is told so.
        return
    with open_sync(address, worker=False):
        pass
