"""One retry owner across processes, for clients and servers that have no integration of their own.

response = urlopen(Request(url, headers=ownership_headers()))     in a guarded call: this call retries
with inherit_ownership(request.headers): ...                      in a server: the caller retries

The headers are Redrive-Attempt and Redrive-Deadline; docs/sdk-clients.md describes them.
"""

from redrive.calls.ownership_headers import inherit_ownership, ownership_headers
from redrive.failures.retries_inside import RetryOwnerWarning

__all__ = ["RetryOwnerWarning", "inherit_ownership", "ownership_headers"]
