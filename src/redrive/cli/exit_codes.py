"""The exit codes of commands."""

BAD_INPUT = 2
FAILED = 1
"""The command ran, and what it reports is bad."""
STORE_TOO_NEW = 78
"""A worker process tells its supervisor that a newer redrive has migrated the store, so restarting it is no use.

EX_CONFIG of sysexits.h: a code that no action is likely to exit with.
"""
TIMED_OUT = 124
"""What the command waited for did not happen in time."""
INTERRUPTED = 130
BROKEN_PIPE = 141
