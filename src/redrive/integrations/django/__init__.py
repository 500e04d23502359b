"""redrive in a Django project: `INSTALLED_APPS += ["redrive.integrations.django"]`.

start(call, key=...)        start a flow with the transaction that is open, or at once where none is
redrive_app()               the app of this process: results, explain, dead letters
manage.py redrive_worker    run flows

Settings are in `REDRIVE`, all of them optional; see `project_settings`.
"""

try:
    import django as _django  # noqa: F401 - the modules below need it
except ImportError as error:
    raise ImportError("the Django integration needs Django: pip install django") from error

from redrive.integrations.django.process_app import redrive_app, start
from redrive.integrations.django.transactions import transaction_of

__all__ = ["redrive_app", "start", "transaction_of"]
