"""A server and its worker in a process whose loop is measured: `python -m tests.holds.measured_server STORE`.

It prints its address, and then, for each line that it is sent, the longest hold since the line before, as JSON.
"""

import asyncio
import json
import sys

from tests.holds.definitions import define
from tests.holds.loop_holds import loop_holds

import redrive
from redrive.server.api import Api
from redrive.server.http_server import HttpServer, bind, url_of, wait_until_started
from redrive.server.settings import ServerSettings


async def serve(address: str) -> None:
    loop = asyncio.get_running_loop()
    define()
    with bind("127.0.0.1", 0) as bound:
        async with redrive.open(address, worker=True) as app:
            server = HttpServer(Api(app, ServerSettings(rate=1e6, burst=10**6)))
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            assert await wait_until_started(server, serving)
            print(url_of(bound), flush=True)
            with loop_holds() as holds:
                while await loop.run_in_executor(None, sys.stdin.readline):
                    await asyncio.sleep(0.01)
                    print(json.dumps(vars(holds.take())), flush=True)
            server.stop()
            await serving


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
