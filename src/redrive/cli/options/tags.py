"""The options --tag and --batch."""

from collections.abc import Sequence
from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput

TagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="NAME=TEXT", help="Only flows with this tag; repeatable.")
]
BatchOption = Annotated[str, typer.Option("--batch", metavar="NAME", help="Only flows of this batch.")]
GivenTagOption = Annotated[
    list[str] | None, typer.Option("--tag", metavar="NAME=TEXT", help="Put this tag on what is started; repeatable.")
]


def read_tags(given: Sequence[str] | None) -> dict[str, str]:
    from redrive.flows.tags import check_tags

    tags: dict[str, str] = {}
    for one in given or ():
        name, equals, text = one.partition("=")
        if not equals:
            raise BadInput(f"--tag: {one!r:.80} has no =; write a name and a text, such as tenant=acme")
        tags[name] = text
    try:
        check_tags(tags)
    except ValueError as error:
        raise BadInput(f"--tag: {str(error).removeprefix('tags: ')}") from None
    return tags
