"""Find the line of a flow's own code that issues a command, for messages about replay."""

import os
import sys
from types import FrameType
from typing import Any


def is_library_frame(frame: FrameType) -> bool:
    """Whether the frame belongs to redrive or asyncio, and not to the flow's code."""
    return str(frame.f_globals.get("__name__", "")).startswith(("redrive.", "asyncio."))


def line_of(frame: FrameType) -> str:
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def calling_line() -> str:
    """The innermost line of the flow's own code that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library_frame(frame):
        frame = frame.f_back
    return "" if frame is None else line_of(frame)


def awaiting_line(coroutine: Any) -> str:
    """The innermost line of the flow's own code at which a coroutine is suspended."""
    line = ""
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        line = line if is_library_frame(frame) else line_of(frame)
        coroutine = getattr(coroutine, "cr_await", None)
    return line


def raising_line(error: BaseException | None) -> str:
    """The innermost line of the flow's own code that an exception passed through."""
    trace, line = error.__traceback__ if error is not None else None, ""
    while trace is not None:
        if not is_library_frame(trace.tb_frame):
            line = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line
