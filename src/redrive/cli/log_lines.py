"""Write log lines to stderr, with times in UTC."""

import logging
import time

LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(message)s"


def log_to_stderr(level: str) -> None:
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=level.upper(), format=LINE, datefmt="%Y-%m-%dT%H:%M:%S")
