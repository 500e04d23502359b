"""Sort steps so that each comes after those it waits for, or find the cycles that make this impossible."""

from collections.abc import Callable, Iterable

MOST_CYCLES = 10
_LONGEST_SHOWN = 8


def ordered(names: Iterable[str], before: Callable[[str], Iterable[str]]) -> tuple[list[str], list[list[str]]]:
    """Sort the names and all that they wait for; the second list has the cycles found on the way.

    Linear, deterministic and without recursion. `before` returns what a step waits for.
    """
    order: list[str] = []
    cycles: list[list[str]] = []
    visiting: dict[str, None] = {}
    done: set[str] = set()
    for first in names:
        if first in done:
            continue
        visiting[first] = None
        stack = [(first, iter(before(first)))]
        while stack:
            name, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
                visiting.pop(name)
                done.add(name)
                order.append(name)
            elif other in visiting:
                if len(cycles) < MOST_CYCLES:
                    way = list(visiting)
                    cycles.append(way[way.index(other) :])
            elif other not in done:
                visiting[other] = None
                stack.append((other, iter(before(other))))
    return order, cycles


def cycle_in_words(cycle: list[str]) -> str:
    if len(cycle) == 1:
        return f"{cycle[0]} needs its own output"
    shown = cycle if len(cycle) <= _LONGEST_SHOWN else [*cycle[: _LONGEST_SHOWN - 1], "...", cycle[-1]]
    return f"a cycle: {' needs '.join([*shown, cycle[0]])}"
