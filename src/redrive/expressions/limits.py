"""Bounds on what an expression or a script may do and hold. All of them are deterministic: replay reaches them too.

Steps bound the time between two waits. A step stands for about a microsecond: a statement, or work on 1,000 characters
or 10 elements of a value. Sizes of single values are bounded before the values are made. What a script holds is counted
when values are made; when the count reaches its bound, what is still reachable is counted anew.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from redrive.errors import ScriptLimitError

MOST_STEPS = 1_000_000
"""Steps between two waits."""
LONGEST_TEXT = 1_000_000
"""Characters of one text."""
MOST_ELEMENTS = 100_000
"""Elements of one list or dict."""
LONGEST_RANGE = 10_000_000
"""Numbers of a range."""
LARGEST_INT = 1_024
"""Bits of one whole number: multiplying, dividing and printing such numbers takes about a step."""
LARGEST_KEY = 60
"""Bits of a whole number that is a key of a dict: larger ones can be chosen to collide."""
MOST_DIGITS = 300
"""Digits that a number is rounded to."""
LARGEST_VALUE = 10_000_000
"""Characters of a value that is compared, printed or handed over, with everything inside it."""
MOST_HELD = 50_000_000
"""Characters of everything that a script holds at one time."""

ELEMENT_SIZE = 8
"""Characters that an element of a list or a dict counts as, beside what it is."""
_SMALL = 100
"""Values of less are not counted as held; the steps that make them bound them."""
_A_STEP = 1_000
ELEMENT_WORK = 100
"""Work on one element, in characters."""


class OutOfSteps(ScriptLimitError):
    """A script took too many steps without waiting. Handlers cannot resume it: they are out of steps too."""

    def __init__(self) -> None:
        super().__init__(
            f"it took {MOST_STEPS:,} steps without an action or a sleep, and meanwhile its worker can do nothing else; "
            'work with large data in an action, build long texts with join("", parts), or let time pass (sleep 1s)'
        )


class TooLarge(ScriptLimitError):
    """A value would be larger than allowed."""

    def __init__(self, what: str, most: int, unit: str) -> None:
        super().__init__(f"{what} would have more than {most:,} {unit}; work with large data in an action")


class TooMuch(ScriptLimitError):
    """All values of a script together are larger than allowed."""

    def __init__(self) -> None:
        super().__init__(
            f"its values together would have more than {MOST_HELD:,} characters; work with large data in an action"
        )


class Budget:
    """What one run has used of its steps and its room."""

    __slots__ = ("_held", "_scopes", "steps")

    def __init__(self) -> None:
        self.steps = 0
        """Taken since the run last waited."""
        self._held = 0
        """Characters of all values made, less what was found unreachable."""
        self._scopes: dict[int, Scope] = {}

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise OutOfSteps

    def exhaust(self) -> None:
        """Leave no steps."""
        self.steps = MOST_STEPS

    def work(self, size: int) -> None:
        """Count work on so many characters as steps."""
        if size >= _A_STEP:
            self.step(size // _A_STEP)

    def hold(self, size: int) -> None:
        """Count a new value of so many characters."""
        if size < _SMALL:
            return
        self._held += size
        if self._held > MOST_HELD:
            self._held = reachable_size(self._scopes.values(), self)
            if self._held > MOST_HELD:
                raise TooMuch

    def enter(self, scope: "Scope") -> None:
        """Variables that keep their values from now on."""
        self._scopes[id(scope)] = scope

    def leave(self, scope: "Scope") -> None:
        del self._scopes[id(scope)]


class Scope(dict[str, Any]):
    """The variables of one evaluation, and the budget it uses."""

    __slots__ = ("budget", "calls", "outer")

    def __init__(self, names: "dict[str, Any]", budget: Budget, calls: int = 0, outer: "Scope | None" = None) -> None:
        super().__init__(names)
        self.budget = budget
        self.calls = calls
        """Function calls that this one is inside of."""
        self.outer = outer
        """Where names are looked up that are not here."""

    def __missing__(self, name: str) -> Any:
        if self.outer is not None:
            return self.outer[name]
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")


class Size(NamedTuple):
    """How large a value is, with everything inside it, as often as it occurs there."""

    elements: int
    characters: int
    odd_key: Any = ""
    """A key that is not a text, where a dict has one."""

    @property
    def work(self) -> int:
        """Looking at all of it once, in characters."""
        return self.elements * ELEMENT_WORK + self.characters


_HOLDING = (list, dict, tuple, BaseException)


def size_of(value: Any) -> Size:
    """The size of a value; TooLarge beyond the limit: lists may hold themselves, or one another many times."""
    if not isinstance(value, _HOLDING):
        return Size(0, len(value) if isinstance(value, str) else 0)
    elements = characters = 0
    odd_key: Any = ""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        parts = _inside(one)
        elements += len(parts)
        if isinstance(one, dict):
            for key in one:
                if type(key) is str:
                    characters += len(key)
                else:
                    odd_key = key
        for part in parts:
            if type(part) is str:
                characters += len(part)
            elif isinstance(part, _HOLDING):
                waiting.append(part)
        if elements * ELEMENT_SIZE + characters > LARGEST_VALUE:
            raise TooLarge("a value, with everything inside it,", LARGEST_VALUE, "characters")
    return Size(elements, characters, odd_key)


def reachable_size(values: Iterable[Any], budget: Budget) -> int:
    """The characters of all values that can be reached, each counted once. The search counts as work."""
    seen: set[int] = set()
    waiting = list(values)
    size = 0
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, _HOLDING):
            parts = _inside(value)
            size += ELEMENT_SIZE * len(parts)
            budget.work(ELEMENT_WORK // 4 * len(parts))
            waiting.extend([one for one in parts if isinstance(one, (str, *_HOLDING))])
    return size


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value.args if isinstance(value, BaseException) else value
