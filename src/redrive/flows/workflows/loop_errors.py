"""Errors about a flow's code that cannot be replayed."""

from redrive.errors import WorkflowCodeError


class NotInWorkflow(WorkflowCodeError):
    """The flow's code used something that cannot be replayed, such as I/O or threads."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be used in a workflow, since it cannot be replayed after a crash; move it into an @action "
            "and await that"
        )


class NoOrder(WorkflowCodeError):
    """asyncio would keep these in a set, whose order differs between processes."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} has no fixed order, which a workflow needs; {instead}")


class FlowSpins(WorkflowCodeError):
    """The flow's code keeps running without waiting for an action or a timer."""

    def __init__(self, times: int, where: str) -> None:
        place = f" at {where}" if where else ""
        super().__init__(
            f"the workflow's code spins{place}: it ran {times:,} callbacks without waiting for an action or a timer, "
            "which blocks the whole worker; wait for what it needs (`await event.wait()`), or let time pass "
            "(`await asyncio.sleep(1)`)"
        )
