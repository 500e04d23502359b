"""Tags: short names and texts that a flow is started with, and found by."""

import re
from collections.abc import Mapping

import msgspec

MOST_TAGS = 20
LONGEST_TAG_NAME = 64
LONGEST_TAG = 256
TAG_NAME = rf"[A-Za-z0-9_][A-Za-z0-9_.:/-]{{0,{LONGEST_TAG_NAME - 1}}}"
_NAME = re.compile(TAG_NAME)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_READ = msgspec.json.Decoder(dict[str, str])


def check_tags(tags: Mapping[str, str]) -> None:
    """ValueError when these cannot be the tags of a flow."""
    if not isinstance(tags, Mapping):
        raise ValueError(f'tags: {tags!r:.80} is not a mapping; use names and texts, such as {{"tenant": "acme"}}')
    if len(tags) > MOST_TAGS:
        raise ValueError(f"tags: {len(tags)} are too many; use at most {MOST_TAGS}")
    for name, text in tags.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise ValueError(
                f"tags: {name!r:.80} is not a valid name; use 1 to {LONGEST_TAG_NAME} letters, digits and _ . : / -, "
                "beginning with a letter, a digit or _"
            )
        if not isinstance(text, str) or not text or len(text) > LONGEST_TAG or _UNSTORABLE.search(text):
            raise ValueError(
                f"tags: {name} is {text!r:.80}; use a text of 1 to {LONGEST_TAG} characters, without NUL and unpaired "
                "surrogates"
            )


def write_tags(tags: Mapping[str, str] | None) -> str | None:
    """Return tags as they are stored: a JSON object, sorted by name; None for none. ValueError where they are wrong."""
    if tags is None:
        return None
    check_tags(tags)
    return msgspec.json.encode(dict(tags), order="sorted").decode() if tags else None


def read_tags(stored: str | None) -> dict[str, str]:
    return {} if stored is None else _READ.decode(stored)


def has_tags(stored: str | None, wanted: Mapping[str, str]) -> bool:
    """Whether a flow with these tags has all that are wanted."""
    return not wanted or wanted.items() <= read_tags(stored).items()
