"""The boundary cases of eligibility, for the function and for the views of the stores."""

from typing import NamedTuple


class Boundary(NamedTuple):
    attempts: int
    max_attempts: int | None
    retryable: bool
    eligible: bool


BOUNDARIES: dict[str, list[Boundary]] = {
    "max_attempts_zero_allows_first_execution": [Boundary(0, 0, True, True), Boundary(0, 0, False, True)],
    "max_attempts_zero_blocks_after_first": [Boundary(1, 0, True, False), Boundary(2, 0, True, False)],
    "max_attempts_one_semantics": [Boundary(0, 1, True, True), Boundary(1, 1, True, False)],
    "max_attempts_three_progression": [Boundary(made, 3, True, made < 3) for made in range(5)],
    "first_attempt_ignores_retryable_flag": [Boundary(0, most, False, True) for most in (0, 1, 3, None)],
    "retries_require_retryable_true": [
        *(Boundary(1, 3, False, False), Boundary(1, None, False, False)),
        *(Boundary(1, 3, True, True), Boundary(10**9, None, True, True)),
    ],
}
