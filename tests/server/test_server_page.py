"""The page about the server is true: its session works, and its table names every endpoint with its role."""

import re
import shlex
from pathlib import Path
from typing import Any

import httpx
from tests.server.serving import Serving, serving

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8717"


def commands() -> list[list[str]]:
    section = PAGE.partition("## A session")[2].partition("\n## ")[0]
    text = "\n".join(re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL))
    return [shlex.split(one) for one in re.split(r"^(?=curl )", text, flags=re.MULTILINE) if one.strip()]


def carry_out(server: Serving, words: list[str], flow_id: str) -> httpx.Response:
    """What curl does with these words."""
    headers: dict[str, str] = {}
    body, url = None, ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(rest)
        elif word != "-s":
            assert not url, word
            url = word.replace(ADDRESS, server.url).replace("$FLOW", flow_id)
    return server.client.request("GET" if body is None else "POST", url, content=body, headers=headers)


def test_the_session_works_as_it_is_written() -> None:
    with serving(worker=False) as server:
        flow_id = ""
        answers = []
        for words in commands():
            answer = carry_out(server, words, flow_id)
            assert answer.is_success, (words, answer.text)
            answers.append(answer.status_code)
            if answer.url.path == "/v1/flows":
                flow_id = answer.json()["id"]
                assert carry_out(server, words, flow_id).status_code == 200
        assert answers == [201, 201, 200, 200, 200, 200, 202, 202, 200]


def test_the_table_names_every_endpoint_with_its_role() -> None:
    shown: dict[tuple[str, str], str | None] = {}
    section = PAGE.partition("## Endpoints")[2].partition("\n## ")[0]
    for row in re.findall(r"^\| (`.+`) \|.*\| ([\w:]*) ?\|$", section, re.MULTILINE):
        for method, path in re.findall(r"`([A-Z]+) (\S+)`", row[0]):
            shown[method.lower(), path] = row[1] or None
    with serving(worker=False) as server:
        document: Any = server.client.get("/openapi.json").json()
    known = {
        (method, path): operation.get("x-role")
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert shown == known
