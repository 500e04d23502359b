"""How a workflow's code ends its run to begin another one."""


class RunEnds(BaseException):
    """Raised by `workflow.continue_as_new()`; not an Exception, so that `except Exception` does not swallow it."""

    def __init__(self, input: str) -> None:  # noqa: A002 - as the record calls it
        super().__init__("the run ends here; the flow goes on with another one")
        self.input = input
