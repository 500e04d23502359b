"""Reads script files and registers their scripts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redrive.cli.action_check import require_actions
from redrive.cli.bad_input import BadFile, BadInput
from redrive.cli.source_files import read_text

if TYPE_CHECKING:
    from redrive.flows.scripts.script import Script

ENDING = ".rd"


def read_script_file(path: Path) -> "Script":
    """The script in a file, named after the file; BadFile with all its problems."""
    from redrive.errors import ScriptError
    from redrive.flows.scripts.script import Script

    try:
        return Script(path.stem, read_text(path), str(path))
    except ScriptError as error:
        raise BadFile(str(error)) from None


def load_scripts(paths: Sequence[str]) -> None:
    """Register the scripts in these files; BadFile with the problems of all files."""
    from redrive.flows.scripts.script import register_script

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
    """BadInput if a script calls actions that are not registered here. `how`: the option that names a module."""
    from redrive.flows.scripts.interpreter import program_of
    from redrive.flows.scripts.script import Script

    if isinstance(script, Script):
        require_actions(f"script {script.name}", program_of(script.text, script.name).actions, how)


def check_registered_scripts() -> None:
    """BadInput if a registered script calls an action that is not registered."""
    from redrive.flows.scripts.script import registered_scripts

    for script in registered_scripts():
        check_script_actions(script, "MODULE")
