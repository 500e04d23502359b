"""Errors of Python itself."""

from redrive.failures.known_errors.entries import Table, permanent, transient

_MISUSE = permanent("the code or its input is wrong: the same call fails in the same way")

BUILTIN_ERRORS: Table = {
    "builtins.TimeoutError": transient("a timeout: the next answer may come in time"),
    "builtins.ConnectionRefusedError": transient(
        "nobody was listening, which passes when the service is back", not_sent=True
    ),
    "builtins.ConnectionResetError": transient("the other side reset the connection: a network failure passes"),
    "builtins.ConnectionAbortedError": transient("the connection was aborted: a network failure passes"),
    "builtins.BrokenPipeError": transient("the other side closed the connection: a network failure passes"),
    "builtins.ConnectionError": transient("a connection failed: a network failure passes"),
    "builtins.BlockingIOError": transient("the resource was busy for the moment"),
    "builtins.InterruptedError": transient("a signal interrupted the call"),
    "builtins.FileNotFoundError": permanent("missing data: there is no such file"),
    "builtins.FileExistsError": permanent("the file exists already"),
    "builtins.IsADirectoryError": permanent("a file was expected, this is a directory"),
    "builtins.NotADirectoryError": permanent("a directory was expected, this is none"),
    "builtins.PermissionError": permanent("the permission is missing, and stays so"),
    "builtins.UnicodeError": permanent("validation: the text is not in the expected encoding, and stays so"),
    "builtins.ValueError": permanent("validation: the same value stays unacceptable"),
    "builtins.KeyError": permanent("missing data: the key is not there"),
    "builtins.IndexError": permanent("missing data: the index is not there"),
    "builtins.LookupError": permanent("missing data: what was looked up is not there"),
    "builtins.TypeError": _MISUSE,
    "builtins.AttributeError": _MISUSE,
    "builtins.NameError": _MISUSE,
    "builtins.ImportError": permanent("a module is missing, and stays so"),
    "builtins.SyntaxError": _MISUSE,
    "builtins.NotImplementedError": permanent("the code for this was not written"),
    "builtins.AssertionError": permanent("an assertion does not hold: the same call fails in the same way"),
    "builtins.ArithmeticError": permanent("the same calculation fails in the same way"),
}
