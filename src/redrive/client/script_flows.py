"""Flows of scripts, from outside."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from redrive.flows.registry import SCRIPT, register_script, script_named
from redrive.flows.scripts.script import Script

if TYPE_CHECKING:
    from redrive.client.app import App
    from redrive.client.handle import Handle


async def start_script(
    app: "App", script: str | Script, inputs: Mapping[str, Any], function: str | None = None, **settings: Any
) -> "Handle[Any]":
    """Start a flow of a script; ArgumentsError when the inputs do not fit."""
    if isinstance(script, Script):
        # Workers take what they know by name; the text comes with the flow.
        register_script(script)
    elif isinstance(script, str):
        script = script_named(script)
    else:
        raise TypeError(f"start_script takes a Script, or the name of one that is registered, not {script!r}")
    return await app.start_definition(SCRIPT + script.name, script.input_for(inputs, function), **settings)
