"""Read source files: graphs, steps and scripts."""

from pathlib import Path

from redrive.cli.bad_input import BadInput


def read_text(path: Path) -> str:
    """Return the text of a file, cut off at a length that its reader refuses as too long."""
    from redrive.flows.graphs.notation.graph_reading import LARGEST_GRAPH

    try:
        with path.open(encoding="utf-8-sig") as opened:
            return opened.read(LARGEST_GRAPH + 1)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: byte {error.start + 1} is not valid UTF-8") from None
