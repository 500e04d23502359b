"""Times as every store keeps them."""

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from redrive.determinism.clock import whole_microseconds


@given(wall=st.floats(0.0, 4e9))
@example(wall=1_700_000_000.0000004)
@example(wall=1_700_000_000.0000007)
def test_a_time_in_whole_microseconds_is_never_before_the_time_itself(wall: float) -> None:
    whole = whole_microseconds(wall)
    assert wall <= whole < wall + 2e-6
    assert whole_microseconds(whole) == whole
    assert datetime.fromtimestamp(whole, UTC).timestamp() == whole
