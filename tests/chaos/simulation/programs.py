"""Random programs, drawn from a seed."""

from typing import Any

from redrive.determinism.dice import Random

NAMES = "abcdefgh"


def leaf(random: Random) -> list[Any]:
    draw, name = random.random(), random.choice(NAMES)
    if draw < 0.55:
        return ["work", name, random.choice((0, 0, 0, 1, 2)), random.choice((0.0, 0.0, 0.05, 0.4, 1.5))]
    if draw < 0.68:
        return ["plain", name]
    if draw < 0.85:
        return ["sleep", random.choice((0.0, 0.1, 0.7, 2.5))]
    if draw < 0.93:
        return ["hang", name, random.choice((0, 1, 2))]
    if draw < 0.96:
        return ["block", name, random.choice((0.3, 1.9, 3.0))]
    return ["cut", random.choice((0.2, 1.0)), ["plain", name]]


def program(random: Random, depth: int = 2) -> list[Any]:
    draw = random.random()
    if depth == 0 or draw < 0.3:
        return leaf(random)
    if draw < 0.42:
        return ["try", ["broken", "never"], leaf(random), leaf(random)]
    kind = "sequence" if draw < 0.7 else "parallel" if draw < 0.88 else "group"
    return [kind, *(program(random, depth - 1) for _ in range(random.choice((1, 2, 2, 3))))]


def failing_program(random: Random) -> list[Any]:
    """A program that fails for good, until it is mended."""
    return ["sequence", program(random, 1), ["broken", "x"], leaf(random)]
