"""The W3C `traceparent` header: which trace something belongs to, and under which span."""

import re
from typing import NamedTuple

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED, _RANDOM = 1, 2


class TraceContext(NamedTuple):
    trace_id: int
    span_id: int
    flags: int

    def write(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


def read_traceparent(text: str) -> TraceContext | None:
    """None when the text is not a valid traceparent."""
    found = _FORM.fullmatch(text) if len(text) <= 200 else None
    if found is None or (text.startswith("00") and len(text) != 55):
        return None
    trace_id, span_id, flags = found.groups()
    return TraceContext(int(trace_id, 16), int(span_id, 16), int(flags, 16) & (_SAMPLED | _RANDOM))
