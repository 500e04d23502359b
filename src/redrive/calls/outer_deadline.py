"""The error of a call that began after the deadline of the enclosing one."""

from redrive.errors import DeadlineExceededError


class OuterDeadlinePassed(DeadlineExceededError):
    """Nothing was called: the deadline of the enclosing call had already passed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.args = (f"not called: the enclosing call's deadline of {seconds:g} s had passed",)
