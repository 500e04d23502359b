"""Dice that draw what the test wrote down."""


class ScriptedDice:
    """Draws the given numbers in order; one draw too many is an error, so that no chance creeps into the test."""

    def __init__(self, *draws: float) -> None:
        for draw in draws:
            if not 0 <= draw <= 1:
                raise ValueError(f"dice draw from 0 to 1, not {draw!r}")
        self._draws = draws
        self.drawn = 0

    def __call__(self) -> float:
        if self.drawn >= len(self._draws):
            raise AssertionError(f"the dice were scripted for {len(self._draws)} draws, and one more was made")
        self.drawn += 1
        return self._draws[self.drawn - 1]
