"""Chooses how scopes are opened: by compiled code, where redrive was installed with a C compiler at hand, or in Python.

`REDRIVE_PURE_PYTHON=1` in the environment chooses Python.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("REDRIVE_PURE_PYTHON"):
    from redrive.calls import opening_in_python as form
else:
    try:
        from redrive.calls import _opening as form
    except ImportError:
        from redrive.calls import opening_in_python as form

__all__ = ["COMPILED", "LoopPlace", "open_scope"]

LoopPlace = form.LoopPlace
open_scope = form.open_scope
COMPILED = form.__name__ == "redrive.calls._opening"
