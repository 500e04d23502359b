"""One retry owner for botocore and boto3, which by themselves make each request up to three or five times.

s3 = owned(boto3.client("s3"))

@redrive.retry
def fetch(key: str) -> bytes:
    return s3.get_object(Bucket="reports", Key=key)["Body"].read()
"""

from typing import TypeVar

try:
    from botocore.config import Config  # type: ignore[import-untyped]  # botocore has no types
except ImportError as error:
    raise ImportError("this is for botocore and boto3, and botocore is not installed: pip install boto3") from error

from redrive.integrations.sdk_clients.client_types import derives_from, refuse

__all__ = ["owned", "owned_config"]

C = TypeVar("C")


def owned(client: C) -> C:
    """Switch off the client's own retries, whichever mode it has, and return it. Its redirects stay as they are.

    A client of botocore cannot be copied, so this one is changed. A resource of boto3 has its client in
    `resource.meta.client`.
    """
    if not derives_from(client, "botocore.client.BaseClient"):
        raise refuse(client, "botocore", 'a client such as boto3.client("s3"), or for a resource, resource.meta.client')
    meta = client.meta  # type: ignore[attr-defined]  # every client of botocore has it
    service = meta.service_model.service_id.hyphenize()
    for event, handler in (("needs-retry", "retry-config"), ("request-created", "seed-max-attempts")):
        # Unregistering what was never registered does nothing: older releases have no second handler.
        meta.events.unregister(f"{event}.{service}", unique_id=f"{handler}-{service}")
    return client


def owned_config(config: Config | None = None) -> Config:
    """Return a Config for clients that make each request once: `boto3.client("s3", config=owned_config())`.

    The other settings of `config` are kept. It suits code that makes its clients itself.
    """
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"botocore.owned_config takes a botocore.config.Config, not {type(config).__name__}")
    retries = dict(getattr(config, "retries", None) or {})
    # It would be taken for the number of retries, beside the total.
    retries.pop("max_attempts", None)
    once = Config(retries={**retries, "total_max_attempts": 1})
    return once if config is None else config.merge(once)
