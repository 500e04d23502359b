"""What a running script has: its functions' variables, how much it may do between two waits, and where it is."""

from types import FrameType
from typing import Any

from redrive.errors import ScriptLimitError
from redrive.failures.known_errors.entries import attribute
from redrive.flows.scripts.held import Held

MOST_STEPS = 1_000_000
"""Steps between two waits: a statement is one, and more when it, or what it works on, is large."""
MOST_CALLS = 100
"""Calls of functions inside one another."""
DEEPEST_STACK = 700
"""What those calls may take of Python's own stack, in its frames."""
LONGEST_TEXT = 1_000_000
"""Characters of one text."""
MOST_ELEMENTS = 100_000
"""Elements of one list or dict."""
LARGEST_INT = 10_000
"""Bits of one whole number: fewer than Python itself prints."""
LARGEST_KEY = 60
"""Bits of a whole number that is the key of a dict."""
MOST_PARTS = 1_000_000
"""Values inside one another that are compared, printed, stored or handed over as one."""
MOST_CHARACTERS = 10_000_000
"""Characters in all texts of such values together."""
MOST_HELD = 50_000_000
"""Characters of all that a script holds at one time; an element of a list or a dict is as much as 8."""

# What one step stands for: about a microsecond, whatever a script does.
LOOKS_A_STEP = 100
"""Characters that are compared or searched, and elements that are copied."""
COPIES_A_STEP = 2000
"""Characters that are copied as one."""
ELEMENTS_A_STEP = 10
"""Elements that are looked at or made, one by one."""
NODES_A_STEP = 4
"""Parts of an expression."""
STEPS_OF_A_FAILURE = 10
"""To raise a failure and to catch it."""
STEPS_OF_A_SEARCH = 50_000
"""To look for all that is held, in vain."""
STEPS_OF_A_BRANCH = 5
"""To begin one of several calls at once."""

PLACE = "script "
"""How the note with the place of an error begins."""
_PLACED = "__redrive_script_place__"
RUN_BLOCK = "run_block"
"""The name of the functions that run the statements of a block; they hold the `execution` and the `line`."""
_ROOM = __name__.rpartition(".")[0]


class OutOfSteps(ScriptLimitError):
    """A script went on and on without waiting. It stays so: whatever handles it is out of steps too."""

    def __init__(self) -> None:
        super().__init__(
            f"it took {MOST_STEPS:,} steps without an action or a sleep, and meanwhile its worker can do nothing else; "
            'work with large data in an action, build long texts with join("", parts), or let time pass (sleep 1s)'
        )


class TooLarge(ScriptLimitError):
    """A value is larger than scripts may hold."""

    def __init__(self, what: str, most: int, unit: str) -> None:
        super().__init__(f"{what} would have more than {most:,} {unit}; work with large data in an action")


class TooMuch(ScriptLimitError):
    """All values of a script together are larger than it may hold."""

    def __init__(self) -> None:
        super().__init__(
            f"its values together would have more than {MOST_HELD:,} characters; work with large data in an action"
        )


class Execution:
    """One run of a script."""

    __slots__ = ("held", "name", "steps")

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        """Taken since it last waited."""
        self.held = Held(MOST_HELD)

    def charge(self, size: int, a_step: int = LOOKS_A_STEP) -> None:
        """Count work on something this large, before it is done wherever it may take long."""
        if size >= a_step:
            self.steps += size // a_step
            if self.steps > MOST_STEPS:
                raise OutOfSteps

    def hold(self, value: Any, size: int) -> None:
        """Count a new value among those that it holds."""
        if not self.held.add(value, size):
            self.charge(STEPS_OF_A_SEARCH, 1)
            raise TooMuch


class Frame:
    """One call of a function."""

    __slots__ = ("calls", "execution", "handling", "names", "returned", "returned_at", "stack")

    def __init__(self, execution: Execution, names: dict[str, Any], calls: int, stack: int) -> None:
        self.execution = execution
        self.names = names
        self.calls = calls
        """How many calls it is inside of."""
        self.stack = stack
        self.handling: BaseException | None = None
        """What a bare `raise` raises again."""
        self.returned: Any = None
        self.returned_at = 0
        """The line."""

    def inner(self, names: dict[str, Any], stack: int) -> "Frame":
        """The frame of a function called from this one, at a place that is `stack` deep in its function."""
        if self.calls >= MOST_CALLS:
            raise RecursionError(f"more than {MOST_CALLS} calls of functions are inside one another")
        if self.stack + stack > DEEPEST_STACK:
            raise RecursionError("calls of functions are too deep inside one another; nest less in each")
        return Frame(self.execution, names, self.calls + 1, self.stack + stack)

    def beside(self, names: dict[str, Any]) -> "Frame":
        """This call again, with other variables."""
        return Frame(self.execution, names, self.calls, self.stack)


def script_place(frame: FrameType) -> str:
    """Where in a script a block is that this frame of Python runs, such as "script order, line 3"; else empty."""
    if frame.f_code.co_name != RUN_BLOCK or not str(frame.f_globals.get("__name__")).startswith(_ROOM):
        return ""
    inside = frame.f_locals
    return f"{PLACE}{inside['execution'].name}, line {inside['line']}" if inside.get("line") else ""


def place_of(error: BaseException, script: str) -> str:
    """What was noted on the error."""
    line = attribute(error, _PLACED)
    return f"{PLACE}{script}" if line is None else f"{PLACE}{script}, line {line}"


def note_place(error: BaseException, script: str, line: int) -> None:
    """Say on the error where it came up: once, the innermost place."""
    if attribute(error, _PLACED) is not None:
        return
    try:
        # Not through the class's own __setattr__: frozen dataclasses refuse.
        object.__setattr__(error, _PLACED, line)
        if isinstance(error, ScriptLimitError):
            error.args = (f"{PLACE}{script}, line {line}: {error}",)
            return
        notes = attribute(error, "__notes__") or ()
        object.__setattr__(error, "__notes__", [*notes, f"{PLACE}{script}, line {line}"])
    except Exception:  # noqa: BLE001 - whatever a strange class does, the error itself matters more than its place
        return
