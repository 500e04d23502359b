"""What a user of the command line did wrong, in one line."""


class BadInput(Exception):
    """Becomes one line on stderr and exit code 2."""
