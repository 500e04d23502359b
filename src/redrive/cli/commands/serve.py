"""`redrive serve`: serve the HTTP API and the dashboard, with a worker in the same process."""

from typing import Annotated

import typer

from redrive.cli.definitions.files import EnvOption, GraphsOption, check_actions, check_registered_scripts, load_graphs
from redrive.cli.definitions.named import load
from redrive.cli.options.http import AllowOption, CallbackOption
from redrive.cli.options.policies import DefaultPolicyOption, DefinitionPolicyOption, PolicyOptions, QueuePolicyOption
from redrive.cli.options.server import HostOption, TlsCertOption, TlsKeyOption, check_tls_options, server_extra
from redrive.cli.options.shared import LogLevelOption, StoreOption, check_log_level
from redrive.cli.stderr_logging import log_to_stderr
from redrive.cli.store_access import find_store, refusals_as_bad_input


def serve_command(
    modules: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODULE]...", help="Modules with workflows and actions: dotted names, or .py files."),
    ] = None,
    graphs: GraphsOption = None,
    env: EnvOption = "",
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = 8717,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only serve; other processes run the flows.")] = False,
    default_policy: DefaultPolicyOption = "",
    queue_policies: QueuePolicyOption = None,
    definition_policies: DefinitionPolicyOption = None,
    allow: AllowOption = None,
    callback_base: CallbackOption = "",
    tls_cert: TlsCertOption = "",
    tls_key: TlsKeyOption = "",
    log_level: LogLevelOption = "info",
    store: StoreOption = "",
) -> int:
    """Serve the HTTP API and the dashboard, with a worker in the same process.

    Needs the extra: pip install 'redrive[server]'.

    Without API keys, only requests from this machine are accepted. SIGTERM and SIGINT stop the server: requests may
    finish, event streams end, and the worker releases its flows. Log lines go to stderr.

    \b
    redrive serve --graphs graphs/
    redrive serve shop.flows --graphs order.yaml --env production --store postgresql://app@db/app
    redrive serve shop.flows --queue-policy 'mail=[SMTPException -> retry: 20, backoff: 1m]'
    redrive keys add --role operate --name ci
    redrive serve --host 0.0.0.0 --callback-base https://redrive.example.com
    redrive serve --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.cli.processes.event_loop import exit_code, run_in_loop

    check_log_level(log_level)
    policies = PolicyOptions(default_policy, queue_policies, definition_policies)
    if no_worker:
        policies.refuse_without_worker()
    check_tls_options(tls_cert, tls_key)
    with server_extra("serve"):
        from redrive.cli.processes.server_process import read_tls_files, serve
    tls = read_tls_files(tls_cert, tls_key) if tls_cert else None
    load_graphs(graphs or [], env)
    if modules:
        # After the graphs: a module may hold settings alone, but not if nothing is defined anywhere.
        load(modules)
    if not no_worker:
        check_actions()
        check_registered_scripts()
        policies.check_definitions()
    log_to_stderr(log_level)
    with refusals_as_bad_input():
        opened = find_store(store, creates=True, allow_memory=True)
        http = tuple(allow or ()), callback_base
        serving = serve(opened, host, port, *http, not no_worker, tls, policies.settings)
        return exit_code(run_in_loop(serving))
