"""Signals as a caller gives them: by name or by method, with their arguments."""

from collections.abc import Callable, Mapping
from typing import Any

from redrive.flows.values.json_form import JsonForm
from redrive.flows.workflows.handlers import check_name, handler_of


def signal_arguments(
    signal: str | Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[str, str]:
    """The name of a signal, and its arguments as they are stored.

    signal: its name, or the @signal method of the workflow, which checks the arguments.
    """
    if isinstance(signal, str):
        name = check_name("signal", signal)
        if args:
            raise TypeError(
                f"signal({name!r}, ...): arguments need names, such as by='ann'; or give the method instead of its "
                "name: signal(Order.approved, 'ann')"
            )
        return name, JsonForm(dict[str, Any], f"signal {name}: its arguments").write(dict(kwargs))[0]
    handler = handler_of(signal)
    if handler is None or handler.kind != "signal":
        raise TypeError(f"signal takes a name, or a method marked with @redrive.signal, not {signal!r}")
    return handler.name, handler.signature.bind(args, dict(kwargs)).encoded
