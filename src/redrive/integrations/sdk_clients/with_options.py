"""Switch off the retries of the SDKs whose clients are copied with `with_options`: OpenAI's and Anthropic's."""

from typing import Any, TypeVar, cast

from redrive.integrations.sdk_clients.client_types import derives_from, refuse

C = TypeVar("C")


def without_retries(client: C, library: str, accepted: str) -> C:
    """Return a copy that shares the connections of `client` and makes each request once."""
    if not derives_from(client, f"{library}._base_client.BaseClient"):
        raise refuse(client, library, accepted)
    sdk = cast("Any", client)
    return client if sdk.max_retries == 0 else cast("C", sdk.with_options(max_retries=0))
