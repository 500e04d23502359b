"""Why a flow is where it is: the timeline, what it waits for, what to do. Pure functions over the log."""
