"""What a user of the command line did wrong, in one line."""


class BadInput(Exception):
    """Becomes one line on stderr and exit code 2."""


class BadFile(Exception):
    """Becomes a line on stderr for each problem, as the file's reader tells it, and exit code 2."""
