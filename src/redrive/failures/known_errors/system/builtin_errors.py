"""Errors of Python itself."""

from redrive.failures.known_errors.entries import Table, permanent, transient

_MISUSE = permanent("the code or its input is wrong: the same call fails again")

BUILTIN_ERRORS: Table = {
    "builtins.TimeoutError": transient("it timed out; the next attempt may be faster"),
    "builtins.ConnectionRefusedError": transient(
        "the connection was refused; the service may be back soon", not_sent=True
    ),
    "builtins.ConnectionResetError": transient("the peer reset the connection; a retry may get through"),
    "builtins.ConnectionAbortedError": transient("the connection was aborted; a retry may get through"),
    "builtins.BrokenPipeError": transient("the peer closed the connection; a retry may get through"),
    "builtins.ConnectionError": transient("the connection failed; a retry may get through"),
    "builtins.BlockingIOError": transient("the resource was busy"),
    "builtins.InterruptedError": transient("a signal interrupted the call"),
    "builtins.FileNotFoundError": permanent("missing data: there is no such file"),
    "builtins.FileExistsError": permanent("the file exists already"),
    "builtins.IsADirectoryError": permanent("a file was expected, this is a directory"),
    "builtins.NotADirectoryError": permanent("a directory was expected, this is not one"),
    "builtins.PermissionError": permanent("permission is missing; a retry does not grant it"),
    "builtins.UnicodeError": permanent("validation: the text is not in the expected encoding"),
    "builtins.ValueError": permanent("validation: the same value is rejected again"),
    "builtins.KeyError": permanent("missing data: the key is not there"),
    "builtins.IndexError": permanent("missing data: the index is not there"),
    "builtins.LookupError": permanent("missing data: what was looked up is not there"),
    "builtins.TypeError": _MISUSE,
    "builtins.AttributeError": _MISUSE,
    "builtins.NameError": _MISUSE,
    "builtins.ImportError": permanent("a module is missing"),
    "builtins.SyntaxError": _MISUSE,
    "builtins.NotImplementedError": permanent("this is not implemented"),
    "builtins.AssertionError": permanent("an assertion failed: the same call fails again"),
    "builtins.ArithmeticError": permanent("the same calculation fails again"),
}
