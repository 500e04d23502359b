"""What the code of a flow must not do, told to whoever wrote it."""

from redrive.errors import WorkflowCodeError


class NotInWorkflow(WorkflowCodeError):
    """The flow's code did what cannot be repeated after a crash."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} cannot be used in a workflow: after a crash it could not be repeated; put it into an @action and "
            "await that"
        )


class NoOrder(WorkflowCodeError):
    """asyncio would put it into a set, in which its parts lie in any order."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} has no fixed order, which a workflow needs; {instead}")


class FlowSpins(WorkflowCodeError):
    """The flow's code goes round and round, and waits for nothing that could happen."""

    def __init__(self, times: int, where: str) -> None:
        place = f" at {where}" if where else ""
        super().__init__(
            f"the workflow's code spins{place}: it went on {times:,} times without waiting for an action or a "
            "timer, and meanwhile nothing else can happen; await what it needs (`await event.wait()`), or let time "
            "pass (`await asyncio.sleep(1)`)"
        )
