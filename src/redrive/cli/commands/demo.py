"""`redrive demo`: an order that survives a flaky service and a killed worker."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from redrive.cli.bad_input import BadInput
from redrive.cli.commands.explain import explain_command
from redrive.cli.stderr_logging import log_to_stderr
from redrive.cli.store_access import find_store


def demo_command(
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Run a shop with outages that come and go, and serve its dashboard.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --dashboard: the port of the page; 0 for any free one.")
    ] = 8717,
) -> int:
    """Show an order that survives a flaky service and a killed worker, in about ten seconds.

    It needs no set-up, uses a temporary SQLite file, and talks only to a server of its own on this machine. With
    --dashboard it runs until Ctrl-C, and needs the extra: pip install 'redrive[server]'.

    \b
    redrive demo
    redrive demo --dashboard
    """
    # Loaded here, so that `redrive --help` is quick.
    if not dashboard:
        from redrive.demo.order_demo import run_demo

        run_demo(explain_command, _program())
        return 0
    return _run_dashboard(port)


def _run_dashboard(port: int) -> int:
    from redrive.cli.processes.event_loop import run_in_loop

    try:
        from redrive.cli.processes.server_process import serve
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("litestar", "uvicorn"):
            raise
        raise BadInput(f"--dashboard needs the extra 'server' ({error}): pip install 'redrive[server]'") from error
    from redrive.demo.dashboard_demo import run_dashboard_demo

    log_to_stderr("error")

    async def serve_page() -> int:
        return await serve(find_store("", creates=True), "127.0.0.1", port, (), "", False, None, {})

    return run_in_loop(run_dashboard_demo(serve_page))


def _program() -> str:
    """How the reader may call redrive again from the same folder."""
    called = Path(sys.argv[0])
    if called.name != "redrive":
        return f"{Path(sys.executable).name} -m redrive"
    found = shutil.which("redrive")
    return "redrive" if found is not None and Path(found).samefile(called) else str(called)
