"""Decides how much of a response body is read inside the attempt, so that a truncated body is retried.

Below the client, `client.get(...)`, which reads the whole body, looks the same as `client.stream(...)`, which does not.
So the response headers decide:

- A body with a Content-Length up to the limit is read.
- A body of unknown length is read up to the limit if it is a document (JSON, XML, HTML) or belongs to a failure. The
  rest is passed on as it arrives.
- Anything else (a large download, an event stream, audio) is passed on as a stream, and reading it is not retried.
"""

from collections.abc import Mapping

_DOCUMENTS = frozenset(
    {
        "application/json",
        "application/xml",
        "application/x-www-form-urlencoded",
        "text/html",
        "text/xml",
    }
)
_DOCUMENT_SUFFIXES = ("+json", "+xml")


def bytes_to_read(headers: Mapping[str, str], limit: int, *, failed: bool) -> int:
    """Return how many bytes of the body to read before the response is returned."""
    length = _content_length(headers)
    if length is not None:
        return limit if length <= limit else 0
    return limit if failed or _is_document(headers) else 0


def _content_length(headers: Mapping[str, str]) -> int | None:
    # A Transfer-Encoding overrides Content-Length (RFC 9112, section 6.3).
    text = headers.get("Content-Length", "").strip()
    if "Transfer-Encoding" in headers or not (text.isascii() and text.isdecimal()):
        return None
    return int(text[:19])


def _is_document(headers: Mapping[str, str]) -> bool:
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return kind in _DOCUMENTS or kind.endswith(_DOCUMENT_SUFFIXES)
