"""A worker of the shop, to be killed: python -m tests.worker.worker_process ADDRESS [SETTING=VALUE ...]"""

import asyncio
import logging
import signal
import sys
from typing import Any

import tests.worker.family
import tests.worker.shop  # noqa: F401 - registers what the shop does

from redrive.assembly import open as open_app


async def main(address: str, settings: dict[str, Any]) -> None:
    async with open_app(address, worker=False, **settings) as app:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, app.stop)
        print("ready", flush=True)  # noqa: T201 - whoever started it waits for this
        await app.work()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    chosen = {name: float(value) for name, _, value in (pair.partition("=") for pair in sys.argv[2:])}
    whole = {
        name: int(value) if name in ("concurrency", "flows", "threads") else value for name, value in chosen.items()
    }
    asyncio.run(main(sys.argv[1], whole))
