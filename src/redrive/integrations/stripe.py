"""One retry owner for the Stripe SDK, which by itself repeats requests after waits of its own.

client = owned(StripeClient(api_key))

@redrive.retry
def charge(cents: int) -> PaymentIntent:
    return client.v1.payment_intents.create({"amount": cents, "currency": "eur"})

Stripe makes a new idempotency key for each call, and so for each attempt: an attempt whose answer was lost would be
charged again. A POST of an owned client, or of the owned module, keeps its key on every attempt of a guarded call.
"""

import sys
from types import ModuleType
from typing import Any, TypeVar, cast

from redrive.calls.idempotency_keys import current_keys
from redrive.integrations.sdk_clients.client_types import derives_from, refuse

__all__ = ["owned"]

C = TypeVar("C")

_PREPARE = "_args_for_request_with_retries"
_DERIVE = "_new_requestor_with_options"


def owned(client: C) -> C:
    """Switch off the retries of a `StripeClient`, or of the module `stripe` for the global API key, and return it.

    Its POST requests also keep their idempotency key on every attempt of a guarded call.
    """
    sdk = cast("Any", client)
    if isinstance(client, ModuleType) and client is sys.modules.get("stripe"):
        # What sends `stripe.Customer.create(...)` and all others of the global API.
        kind = getattr(sys.modules.get("stripe._api_requestor"), "_APIRequestor", None)
        shared = getattr(kind, "_global_instance", None)
        _with_lasting_keys(None if shared is None else shared())
        sdk.max_network_retries = 0
    elif derives_from(client, "stripe._stripe_client.StripeClient"):
        # The services of a client share its requestor.
        _with_lasting_keys(sdk._requestor)
        sdk._requestor._options.max_network_retries = 0
    else:
        raise refuse(client, "stripe", "a StripeClient, or the module stripe itself")
    return client


def _with_lasting_keys(requestor: Any) -> Any:
    """Let the requestor use the guarded call's key for a POST whose caller has given none."""
    prepare, derive = getattr(requestor, _PREPARE, None), getattr(requestor, _DERIVE, None)
    if prepare is None or derive is None:
        # Silently, each attempt would have a key of its own, and might charge once more.
        raise RuntimeError(
            "stripe.owned cannot keep idempotency keys with this release of stripe; update stripe, or set "
            "max_network_retries=0 yourself and pass an idempotency_key with each POST"
        )
    if _PREPARE in vars(requestor):
        return requestor

    def prepared(method: str, url: str, params: Any = None, options: Any = None, **more: Any) -> Any:
        keys, options = current_keys(), dict(options or {})
        if keys is not None and method == "post" and not options.get("idempotency_key"):
            # With its content: Stripe refuses a key that comes back with another one.
            options["idempotency_key"] = keys.key_for("POST", f"{url} {params!r}")
        return prepare(method, url, params, options or None, **more)

    setattr(requestor, _PREPARE, prepared)
    # Each call is sent by a requestor that is derived from this one.
    setattr(requestor, _DERIVE, lambda options: _with_lasting_keys(derive(options)))
    return requestor
