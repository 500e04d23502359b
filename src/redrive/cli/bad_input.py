"""Errors in what the user gave: the command line reports them without a traceback."""


class BadInput(Exception):
    """Printed as one line on stderr; exit code 2."""


class BadFile(Exception):
    """Printed as one line per problem in the file, on stderr; exit code 2."""
