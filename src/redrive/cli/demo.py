"""`redrive demo`: an order that survives a flaky service and a killed worker."""

from redrive.cli.explain import explain_command


def demo_command() -> None:
    """Show an order that survives a flaky service and a killed worker, in about ten seconds.

    It needs no set-up, uses a temporary SQLite file, and talks only to a server of its own on this machine.

    \b
    redrive demo
    """
    # Loaded here, so that `redrive --help` is quick.
    from redrive.demo.order_demo import run_demo

    run_demo(explain_command)
