"""Chooses how scopes are opened: by compiled code, where redrive was installed with a C compiler at hand, or in Python.

`REDRIVE_PURE_PYTHON=1` in the environment chooses Python.
"""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("REDRIVE_PURE_PYTHON"):
    from redrive.calls.opening_in_python import LoopPlace, open_scope
else:
    try:
        from redrive.calls._opening import LoopPlace, open_scope
    except ImportError:
        from redrive.calls.opening_in_python import LoopPlace, open_scope

__all__ = ["COMPILED", "LoopPlace", "open_scope"]

COMPILED = open_scope.__module__ == "redrive.calls._opening"
