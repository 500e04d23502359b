"""Errors of pydantic-ai, which wraps the errors of the models' clients."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import Lookup, Table, permanent, wrapped_verdict


def _model_error(error: BaseException, lookup: Lookup) -> Verdict | None:
    """The client's own error has the facts; without one, status and headers decide."""
    return wrapped_verdict(error, lookup)


PYDANTIC_AI_ERRORS: Table = {
    "pydantic_ai.exceptions.ModelAPIError": _model_error,
    "pydantic_ai.exceptions.UserError": permanent("the agent is used incorrectly"),
    "pydantic_ai.exceptions.UsageLimitExceeded": permanent("the agent's usage limit is spent; raise it first"),
    "pydantic_ai.exceptions.ContentFilterError": permanent("the content filter rejected the request"),
}
