"""Errors of paramiko, the SSH client."""

from collections.abc import Mapping

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, attribute, permanent, transient, unknown

_LOST = transient("the SSH connection was lost or never became ready; a retry may get through")
_REFUSED_LOGIN = permanent("the SSH server refuses the login")

# paramiko has one class for most failures and says what happened only as text.
_LOST_TEXTS = (
    "protocol banner",
    "protocol version",
    "invalid ssh banner",
    "no existing session",
    "session not active",
    "negotiation",
    "channel is not open",
    "channel closed",
    "timeout",
    "timed out",
    "dropped",
    "eof",
    "mismatched mac",
    "invalid packet",
    "garbage packet",
)
_REFUSED_TEXTS = (
    "no authentication methods",
    "authentication failed",
    "host key",
    "known_hosts",
    "request denied",
    "unknown cipher",
    "not a valid",
    "invalid key",
)
_CUT_SHORT_TEXTS = ("Authentication timeout", "transport shut down", "EOF")

_CHANNEL_CODES: dict[int, Verdict] = {
    1: permanent("the SSH server prohibits this channel"),
    2: transient("the SSH server could not connect to the target; it may be back soon"),
    3: permanent("the SSH server does not know this kind of channel"),
    4: transient("the SSH server is out of channels for the moment"),
}


def _session(error: BaseException, lookup: Lookup) -> Verdict | None:
    text = str(error).lower()
    if any(lost in text for lost in _LOST_TEXTS):
        return _LOST
    if any(refused in text for refused in _REFUSED_TEXTS):
        return permanent("the SSH server or the client's settings refuse this: the same call fails again")
    # Some carry what happened as their last argument.
    inner = error.args[-1] if error.args and isinstance(error.args[-1], BaseException) else error.__cause__
    return None if inner is None else lookup(inner)


def _login(error: BaseException, _lookup: Lookup) -> Verdict:
    return _LOST if any(cut in str(error) for cut in _CUT_SHORT_TEXTS) else _REFUSED_LOGIN


def _no_address(error: BaseException, lookup: Lookup) -> Verdict:
    """`errors` has what happened at each address of the host."""
    errors = attribute(error, "errors")
    tried = [lookup(one) for one in errors.values()] if isinstance(errors, Mapping) else []
    reasons = dict.fromkeys(one.reason for one in tried if one is not None)
    return transient(f"no address of the host could be connected to ({'; '.join(reasons)})", not_sent=True)


def _channel(error: BaseException, _lookup: Lookup) -> Verdict:
    code = attribute(error, "code")
    return _CHANNEL_CODES.get(code) or unknown(f"the SSH server refused the channel with code {code}")


SSH_ERRORS: Table = {
    "paramiko.ssh_exception.SSHException": _session,
    "paramiko.sftp.SFTPError": _session,
    "paramiko.ssh_exception.NoValidConnectionsError": _no_address,
    "paramiko.ssh_exception.AuthenticationException": _login,
    "paramiko.ssh_exception.BadHostKeyException": permanent("the SSH server's host key is not the expected one"),
    "paramiko.ssh_exception.IncompatiblePeer": permanent("client and SSH server share no algorithm"),
    "paramiko.ssh_exception.MessageOrderError": _LOST,
    "paramiko.ssh_exception.ChannelException": _channel,
    "paramiko.ssh_exception.ProxyCommandFailure": transient("the proxy command of the SSH connection ended"),
    "paramiko.ssh_exception.ConfigParseError": permanent("validation: the SSH configuration cannot be read"),
    "paramiko.ssh_exception.CouldNotCanonicalize": permanent("validation: the host name cannot be made canonical"),
}
