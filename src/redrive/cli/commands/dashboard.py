"""`redrive dashboard`: look at a store in the browser, without a worker."""

from typing import Annotated

import typer

from redrive.cli.options.server import HostOption, TlsCertOption, TlsKeyOption, check_tls_options, server_extra
from redrive.cli.options.shared import LogLevelOption, StoreOption, check_log_level
from redrive.cli.stderr_logging import log_to_stderr
from redrive.cli.store_access import find_store, refusals_as_bad_input


def dashboard_command(
    operate: Annotated[
        bool, typer.Option("--operate", help="Allow changes: retry, cancel, pause, redrive, ...; else it only looks.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8718,
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
    log_level: LogLevelOption = "warning",
    store: StoreOption = "",
) -> int:
    """Look at a store in the browser: what fails, why each flow waits, and what happens next.

    It runs no worker, and changes nothing unless --operate is given. `redrive serve` serves the same page. Needs the
    extra: pip install 'redrive[server]'.

    \b
    redrive dashboard --open
    redrive dashboard --operate --store postgresql://app@db/app
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.processes.event_loop import exit_code, run_in_loop

    check_log_level(log_level)
    check_tls_options(tls_cert, tls_key)
    with server_extra("dashboard"):
        from redrive.cli.processes.server_process import read_tls_files, serve_dashboard
    tls = read_tls_files(tls_cert, tls_key) if tls_cert else None
    log_to_stderr(log_level)
    with refusals_as_bad_input():
        opened = find_store(store, creates=False)
        serving = serve_dashboard(opened, host, port, tls, operate=operate, opens_browser=open_browser)
        return exit_code(run_in_loop(serving))
