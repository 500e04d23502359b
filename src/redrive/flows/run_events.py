"""The event that begins another run of a flow: `workflow.continue_as_new()`."""

from redrive.flows.event import Event


class RunContinued(Event, frozen=True, kw_only=True):
    """The flow's code ended its run and goes on anew with another input; only what follows is ever replayed.

    The first line of the new run's log. Numbers go on, so that no receipt token is used twice.
    """

    run: int
    """The number of the run, from 2."""
    items: int = 0
    """The number of the last item of the earlier runs."""
    timers: int = 0
    children: int = 0
    signals: tuple[str, ...] = ()
    """The ids of signals that the flow has had, at most 1,000. Those that its code has yet to receive follow."""
