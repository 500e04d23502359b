"""Errors of the Stripe client."""

from redrive.failures.failure import Verdict
from redrive.failures.known_errors.entries import (
    Lookup,
    Reader,
    Table,
    attribute,
    permanent,
    transient,
    verdict_where_conflicts_pass,
    wrapper,
)

_LOST = transient("the connection failed or was lost; a retry may get through")


def _answered(otherwise: Verdict | None) -> Reader:
    def read(error: BaseException, _lookup: Lookup) -> Verdict | None:
        return verdict_where_conflicts_pass(attribute(error, "http_status"), attribute(error, "headers")) or otherwise

    return read


_BY_NAME: Table = {
    "APIConnectionError": wrapper(_LOST),
    "CardError": _answered(permanent("the card was declined: the same payment is declined again")),
    "RateLimitError": _answered(transient("the rate limit resets over time", not_sent=True)),
    "AuthenticationError": _answered(permanent("the credentials are missing or wrong")),
    "SignatureVerificationError": permanent("validation: the webhook is not signed as it must be"),
    "StripeError": _answered(None),
}

STRIPE_ERRORS: Table = {
    # Older releases define the classes in another module.
    f"{module}.{name}": entry
    for module in ("stripe", "stripe._error", "stripe.error")
    for name, entry in _BY_NAME.items()
}
