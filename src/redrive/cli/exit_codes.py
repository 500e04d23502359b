"""What a command ends with."""

BAD_INPUT = 2
FAILED = 1
"""The command worked, and what it reports is bad."""
TOO_OLD = 78
"""What a worker process tells its supervisor: a newer redrive has changed the store, and it is no use to try again.

Of sysexits.h, for what is set up wrong: one that an action may end its process with must not end all the others.
"""
TOO_LATE = 124
"""What was waited for did not come in time."""
INTERRUPTED = 130
BROKEN_PIPE = 141
