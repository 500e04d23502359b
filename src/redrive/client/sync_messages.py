"""What programs without an event loop send to flows by their ids."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from redrive.client.app import App
from redrive.flows.retry_policy import Timeout

T = TypeVar("T")


class SyncMessages:
    def _run(self, call: Callable[[App], Coroutine[Any, Any, T]]) -> T:
        raise NotImplementedError

    def signal(
        self, flow_id: str, name: str, arguments: Mapping[str, Any], *, signal_id: str | None = None, by: str = ""
    ) -> None:
        """Send a flow a signal, as `Handle.signal` does.

        signal_id: the flow receives a signal of the same id once; by default, a new one.
        by: who sends it.
        """
        self._run(lambda app: app.signal(flow_id, name, arguments, signal_id=signal_id, by=by))

    def query(self, flow_id: str, name: str, arguments: Mapping[str, Any]) -> Any:
        """Ask a flow something, as `Handle.query` does; the answer is plain data."""
        return self._run(lambda app: app.query(flow_id, name, arguments))

    def update(
        self,
        flow_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout: Timeout | None = None,
        update_id: str | None = None,
        by: str = "",
    ) -> Any:
        """Send a flow an update and wait for its answer, as `Handle.update` does; the answer is plain data.

        update_id: an update of the same id takes effect once, and is answered each time; by default, a new one.
        """
        return self._run(lambda app: app.update(flow_id, name, arguments, timeout=timeout, update_id=update_id, by=by))
