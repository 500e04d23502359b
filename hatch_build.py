"""Compiles `redrive.calls._opening` while redrive is built, where there is a C compiler; else Python does it."""

import os
import platform
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "redrive.calls._opening"


class CompiledOpening(BuildHookInterface):  # type: ignore[type-arg,misc]  # hatchling is there while a build runs only
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src", *MODULE.split(".")).with_suffix(".c")
        if version == "editable":
            # An editable install imports from the sources, so that is where it must be.
            self._compile(source, Path(self.root, "src"))
            return
        self._folder = tempfile.TemporaryDirectory(prefix="redrive-build-")
        built = self._compile(source, Path(self._folder.name))
        if built is not None:
            build_data["force_include"][str(built)] = built.relative_to(self._folder.name).as_posix()
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()

    def _compile(self, source: Path, into: Path) -> Path | None:
        """Where the compiled module is; None where it cannot be had, which is no error."""
        built = Path(into, *MODULE.split(".")).with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        built.unlink(missing_ok=True)
        if not can_be_used():
            return None
        try:
            compile_extension(source, into)
        except ImportError as error:
            self.app.display_warning(str(error))
        if built.exists():
            return built
        self.app.display_warning(f"{MODULE} was not compiled: its Python form is used, guarded calls take longer")
        return None


def compile_extension(source: Path, into: Path) -> None:
    # Part of the build requirements; whoever builds without isolation may not have it.
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    # Nothing for a debugger: where it was built is nobody's concern.
    flags = [] if os.name == "nt" else ["-g0"]
    extension = Extension(MODULE, [os.path.relpath(source)], extra_compile_args=flags, optional=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = build_ext(Distribution({"ext_modules": [extension]}))
        command.build_lib, command.build_temp = str(into), scratch
        command.ensure_finalized()
        command.run()


def can_be_used() -> bool:
    """Not where no C is wanted, nor by interpreters it is not made for: without a GIL, it would bring that back."""
    wanted = not os.environ.get("REDRIVE_PURE_PYTHON")
    return wanted and platform.python_implementation() == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
