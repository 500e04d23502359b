"""Writes docs/client-failures.md: `python -m tests.client_failures`, or `--json` to print what happened instead."""

import argparse
import logging

import msgspec

from .cells import played
from .page import PAGE, page


def main() -> None:
    parser = argparse.ArgumentParser(description="Make every client library fail, and write down what redrive did.")
    parser.add_argument("--json", action="store_true", help="print the cells as JSON, and write nothing")
    options = parser.parse_args()
    # The clients report failures there that are made on purpose.
    logging.disable()
    cells = played()
    if options.json:
        print(msgspec.json.encode(cells).decode())  # noqa: T201 - what this command says
    else:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), cells), encoding="utf-8")


if __name__ == "__main__":
    main()
