"""--default-policy, --queue-policy and --definition-policy of the commands that run flows."""

import shlex
from typing import Any

import pytest
from tests.cli.test_serve import SHOP, Command, Serve, run, serve

__all__ = ["run", "serve"]  # the fixtures

POLICY = "[ConnectionError -> retry: 1, backoff: 10ms]"
COMMANDS = [("worker", SHOP), ("serve", SHOP, "--port", "0"), ("run", f"{SHOP}:unreachable")]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("--default-policy", "[x", "--default-policy: <text>:1: found the end of the text"),
        ("--queue-policy", "mail", "--queue-policy: 'mail' is not allowed; write NAME=POLICY, such as 'mail=["),
        ("--queue-policy", "mail=[X -> retry: zz]", "--queue-policy mail: <text>:1: key 'brackets[0].retry'"),
        ("--queue-policy", f"{'m' * 201}={POLICY}", f"--queue-policy: '{'m' * 201}' is not allowed; use a name of 1"),
        ("--definition-policy", "=[X -> retry: 1]", "--definition-policy: '=[X -> retry: 1]' is not allowed"),
        (
            "--definition-policy",
            f"CliOrdr={POLICY}",
            "--definition-policy: this worker has no definition 'CliOrdr'; did you mean CliOrder?",
        ),
        (
            "--definition-policy",
            f"workflow:CliOrdr={POLICY}",
            "--definition-policy: this worker has no definition 'workflow:CliOrdr'; did you mean workflow:CliOrder?",
        ),
        (
            "--definition-policy",
            f"unheard-of={POLICY}",
            "--definition-policy: this worker has no definition 'unheard-of'; name one that its modules define",
        ),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_in_one_line(
    command: tuple[str, ...], option: str, value: str, line: str, run: Command
) -> None:
    (said,) = run(*command, option, value).refused().splitlines()
    assert said.startswith(f"redrive: {line}")


def item_of(server: Any, flow_id: str) -> dict[str, Any]:
    explanation = server.client.get(f"/v1/flows/{flow_id}/explain").json()
    (item,) = (entry for entry in explanation["timeline"] if "policy_from" in entry)
    return dict(item)


@pytest.mark.promise("L1")
@pytest.mark.parametrize(
    ("options", "source"),
    [
        (("--default-policy", POLICY), "default"),
        (("--queue-policy", f"default={POLICY}"), "queue"),
        (("--definition-policy", f"cli_unreachable={POLICY}", "--default-policy", "attempts: 9"), "definition"),
    ],
)
def test_the_worker_of_a_server_uses_the_policies_of_its_command_line(
    options: tuple[str, ...], source: str, serve: Serve
) -> None:
    server = serve(SHOP, *options)
    flow_id = server.client.post("/v1/flows", json={"action": "cli_unreachable", "inputs": {}}).json()["id"]
    server.until(lambda: server.client.get(f"/v1/flows/{flow_id}").json()["status"] == "failed")
    item = item_of(server, flow_id)
    assert (item["policy_from"], len(item["attempts"])) == (source, 2)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("options", "source"),
    [
        (("--default-policy", POLICY), "default policy: "),
        (("--queue-policy", f"default={POLICY}"), "policy of the queue"),
        (("--definition-policy", f"action:cli_unreachable={POLICY}"), "policy of the definition"),
    ],
)
def test_a_flow_in_the_foreground_has_the_policies_of_the_command_line(
    options: tuple[str, ...], source: str, run: Command
) -> None:
    ran = run("run", f"{SHOP}:unreachable", *options)
    assert ran.code == 1
    assert source in ran.err
    assert "the rule for ConnectionError grants 1 retry" in ran.err


def test_a_server_without_a_worker_refuses_policies(run: Command) -> None:
    said = run("serve", SHOP, "--no-worker", "--port", "0", "--queue-policy", f"mail={POLICY}").refused()
    assert said == (
        "redrive: --queue-policy has no effect with --no-worker; give it to redrive worker, which runs the flows\n"
    )


def test_a_policy_for_a_queue_that_is_not_read_is_warned_of(run: Command) -> None:
    ran = run("run", f"{SHOP}:nap", "--input", '{"seconds": 0}', "--queue-policy", f"mail={POLICY}")
    assert ran.code == 0
    assert "redrive: --queue-policy mail has no effect: this worker reads only default (--queue)\n" in ran.err


def test_the_worker_that_is_proposed_to_continue_a_flow_has_the_same_policies(run: Command) -> None:
    options = ["--default-policy", POLICY, "--queue-policy", f"default={POLICY}"]
    ran = run("run", f"{SHOP}:CliNaps", "--input", '{"seconds": 3600}', "--timeout", "100ms", *options)
    assert ran.code == 124
    proposed = ran.err.partition("it continues with: ")[2].partition("; to see where it stands")[0]
    assert shlex.split(proposed) == ["redrive", "worker", SHOP, *options]
