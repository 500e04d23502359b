"""A middleware for WSGI applications (Flask, Django, Bottle): the caller of a request owns its retries.

app.wsgi_app = RetryOwnerMiddleware(app.wsgi_app)
"""

from collections.abc import Callable, Iterable
from typing import Any

from redrive.calls.ownership_headers import inherit_ownership

__all__ = ["RetryOwnerMiddleware"]

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
_PREFIX = "HTTP_"


class RetryOwnerMiddleware:
    """Lets guarded calls make one attempt each, within the caller's time, if a guarded call sent the request.

    It reads the headers Redrive-Attempt and Redrive-Deadline. A body that the application generates piece by piece
    after it has returned is not covered.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        headers = {
            name.removeprefix(_PREFIX).replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith(_PREFIX) and isinstance(value, str)
        }
        with inherit_ownership(headers):
            return self._app(environ, start_response)
