"""Scripts in files: read, checked whole, and made known to this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.graph_files import read_text, refuse_unknown

if TYPE_CHECKING:
    from redrive.flows.scripts.script import Script

ENDING = ".rd"


def read_script_file(path: Path) -> "Script":
    """The script in a file, named after it; BadFile with all that is wrong in it."""
    from redrive.errors import ScriptError
    from redrive.flows.scripts.script import Script

    try:
        return Script(path.stem, read_text(path), str(path))
    except ScriptError as error:
        raise BadFile(str(error)) from None


def load_scripts(paths: Sequence[str]) -> None:
    """Register the scripts in these files; BadFile with all that is wrong in all of them."""
    from redrive.flows.registry import register_script

    problems: list[str] = []
    files: dict[str, str] = {}
    for name in paths:
        try:
            script = read_script_file(Path(name))
        except BadFile as error:
            problems.append(str(error))
            continue
        if script.name in files:
            raise BadInput(f"two scripts are named {script.name!r}: in {files[script.name]} and in {name}")
        files[script.name] = name
        register_script(script)
    if problems:
        raise BadFile("\n".join(problems))


def check_script_actions(script: Any, how: str) -> None:
    """BadInput for a script that calls actions which this process does not know; `how` to name a module."""
    from redrive.flows.scripts.interpreter import program_of
    from redrive.flows.scripts.script import Script

    if isinstance(script, Script):
        refuse_unknown(f"script {script.name}", program_of(script.text, script.name).actions, how)


def check_registered_scripts() -> None:
    """BadInput for a script that this process knows, but not all of its actions."""
    from redrive.flows.registry import registered_scripts

    for script in registered_scripts():
        check_script_actions(script, "MODULE")
