"""Dice with scripted draws."""


class ScriptedDice:
    """Draws the given numbers in order; one draw too many is an AssertionError, so that no test is random."""

    def __init__(self, *draws: float) -> None:
        for draw in draws:
            if not 0 <= draw <= 1:
                raise ValueError(f"{draw!r} is not a valid draw; use a number from 0 to 1")
        self._draws = draws
        self.drawn = 0

    def __call__(self) -> float:
        if self.drawn >= len(self._draws):
            raise AssertionError(f"the dice were scripted for {len(self._draws)} draws, but one more was made")
        self.drawn += 1
        return self._draws[self.drawn - 1]
