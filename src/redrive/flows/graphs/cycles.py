"""Steps in an order in which each comes after those it waits for, and the cycles that make this impossible."""

from collections.abc import Callable, Iterable

MOST_CYCLES = 10
_LONGEST_SHOWN = 8


def ordered(names: Iterable[str], before: Callable[[str], Iterable[str]]) -> tuple[list[str], list[list[str]]]:
    """The names and all that they wait for, in order; and cycles, each from a step to the one that waits for it.

    Linear, deterministic and without recursion. `before`: what a step waits for.
    """
    order: list[str] = []
    cycles: list[list[str]] = []
    on_the_way: dict[str, None] = {}
    done: set[str] = set()
    for first in names:
        if first in done:
            continue
        on_the_way[first] = None
        stack = [(first, iter(before(first)))]
        while stack:
            name, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
                on_the_way.pop(name)
                done.add(name)
                order.append(name)
            elif other in on_the_way:
                if len(cycles) < MOST_CYCLES:
                    way = list(on_the_way)
                    cycles.append(way[way.index(other) :])
            elif other not in done:
                on_the_way[other] = None
                stack.append((other, iter(before(other))))
    return order, cycles


def cycle_in_words(cycle: list[str]) -> str:
    if len(cycle) == 1:
        return f"{cycle[0]} needs what it gives itself"
    shown = cycle if len(cycle) <= _LONGEST_SHOWN else [*cycle[: _LONGEST_SHOWN - 1], "...", cycle[-1]]
    return f"a cycle: {' needs '.join([*shown, cycle[0]])}"
