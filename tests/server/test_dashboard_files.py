"""The page of the dashboard: sent without a key, with its own policy, and never in place of the API."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import Serving, problem, serving

from redrive.server import dashboard_files
from redrive.server.dashboard_files import DashboardFiles

PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SCRIPT = b"export const answer = 42;\n" * 50
LOAD = DashboardFiles.__dict__["load"]
CONTENTS = {
    "index.html": b"<!doctype html><head><title>redrive</title></head>",
    "theme.js": b"document.title;",
    "main.js": SCRIPT,
    "views/now.js": b"export const route = {};",
    "vendor/preact/LICENSE": b"MIT " * 100,
    "style.css": b"body { margin: 0 }",
    "logo.png": b"\x89PNG" + bytes(500),
    "__init__.py": b"SECRET = 1",
    ".hidden.js": b"no",
    "notes.sqlite": b"no",
}

PRELOADING = (
    b'<!doctype html><head><title>redrive</title><link rel="modulepreload" href="/assets/main.js" />'
    b'<link rel="modulepreload" href="/assets/views/now.js" /></head>'
)
"""The browser asks for all modules at once, and for nothing else."""


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DashboardFiles, "load", classmethod(lambda cls: cls(CONTENTS)))
        with serving(worker=False) as server:
            # With keys: the page needs none.
            server.key("read")
            yield server


@pytest.mark.parametrize("path", ["/", "/flows", "/flows/0192-abc", "/dead", "/signin", "/views/yet/to/come"])
def test_every_view_is_the_same_page(server: Serving, path: str) -> None:
    answer = server.client.get(path, headers=PAGE)
    assert answer.status_code == 200
    assert answer.content == PRELOADING
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_the_page_has_its_own_policy_and_the_api_keeps_its(server: Serving) -> None:
    for path in ("/", "/assets/main.js"):
        headers = server.client.get(path, headers=PAGE).headers
        assert headers.get_list("content-security-policy") == [
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ]
        assert headers["cache-control"] == "no-cache"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    headers = server.client.get("/v1/session").headers
    assert headers.get_list("content-security-policy") == ["default-src 'none'; frame-ancestors 'none'"]
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/v1/flows", "/v1/none", "/v1", "/assets/none.js", "/assets/", "/openapi.json"])
def test_the_page_never_stands_for_what_is_not_a_view(server: Serving, path: str) -> None:
    assert "<!doctype" not in server.client.get(path, headers=PAGE).text


def test_other_programs_are_told_that_nothing_is_there(server: Serving) -> None:
    problem(server.client.get("/flows"), 404)
    problem(server.client.post("/", headers=PAGE, json={}), 404)


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("main.js", "text/javascript; charset=utf-8"),
        ("views/now.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("logo.png", "image/png"),
        ("vendor/preact/LICENSE", "text/plain; charset=utf-8"),
    ],
)
def test_assets_are_what_they_are(server: Serving, path: str, media_type: str) -> None:
    answer = server.client.get(f"/assets/{path}")
    assert answer.status_code == 200
    assert answer.content == CONTENTS[path]
    assert answer.headers["content-type"] == media_type


@pytest.mark.parametrize(
    "path", ["__init__.py", ".hidden.js", "notes.sqlite", "../api.py", "%2e%2e/api.py", "index.html", "/etc/passwd"]
)
def test_nothing_else_is_sent(server: Serving, path: str) -> None:
    answer = server.client.get(f"/assets/{path}")
    assert answer.status_code == 404, answer.text


def test_what_the_browser_has_is_not_sent_again(server: Serving) -> None:
    for encoding in ("gzip", "identity"):
        first = server.client.get("/assets/main.js", headers={"Accept-Encoding": encoding})
        tag = first.headers["etag"]
        again = {"Accept-Encoding": encoding, "If-None-Match": f'"other", W/{tag}'}
        answer = server.client.get("/assets/main.js", headers=again)
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["etag"] == tag
        assert "content-type" not in answer.headers
        changed = server.client.get("/assets/main.js", headers={**again, "If-None-Match": '"other"'})
        assert changed.status_code == 200


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("gzip;q=0", False), ("identity", False), ("", False)],
)
def test_files_are_compressed_where_that_is_accepted(server: Serving, accepted: str, is_compressed: bool) -> None:
    with server.client.stream("GET", "/assets/main.js", headers={"Accept-Encoding": accepted}) as answer:
        sent = b"".join(answer.iter_raw())
        assert answer.headers["vary"] == "Accept-Encoding"
        assert int(answer.headers["content-length"]) == len(sent)
        assert (answer.headers.get("content-encoding") == "gzip") is is_compressed
    assert (gzip.decompress(sent) if is_compressed else sent) == SCRIPT
    assert is_compressed is (len(sent) < len(SCRIPT))


def test_the_page_may_be_asked_for_with_head(server: Serving) -> None:
    answer = server.client.head("/")
    assert answer.status_code == 200
    assert answer.content == b""


def test_the_page_is_there_while_the_store_is_not() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DashboardFiles, "load", classmethod(lambda cls: cls(CONTENTS)))
        with serving(worker=False) as server:

            async def away(*given: Any) -> Any:
                raise OSError("gone")

            server.app.store.list_keys = away  # type: ignore[method-assign]  # fails
            assert server.client.get("/").status_code == 200


def test_the_page_counts_against_the_rate_of_its_address() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DashboardFiles, "load", classmethod(lambda cls: cls(CONTENTS)))
        with serving(worker=False, rate=0.1, burst=2) as server:
            assert [server.client.get("/").status_code for _ in range(3)] == [200, 200, 429]


def test_without_files_the_api_is_served_alone() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DashboardFiles, "load", LOAD)
        patch.setattr(dashboard_files, "FOLDER", "not there")
        with serving(worker=False) as server:
            problem(server.client.get("/", headers=PAGE), 404)
            assert server.client.get("/v1/flows").status_code == 200


def test_the_page_is_small_and_its_rules_lie_where_they_belong() -> None:
    """A new view is a script, its rules beside it, and a route."""
    folder = Path(dashboard_files.__file__).parent / dashboard_files.FOLDER
    sent = [one for one in folder.rglob("*") if one.suffix in (".js", ".css", ".html", ".svg")]
    assert sum(len(gzip.compress(one.read_bytes())) for one in sent) <= 150_000
    rules = {one.relative_to(folder).as_posix(): one for one in sent if one.suffix == ".css"}
    assert max(len(one.read_text().splitlines()) for one in rules.values()) <= 400
    imported = re.findall(r'@import url\("(.+)"\);', rules.pop("style.css").read_text())
    assert sorted(imported) == sorted(rules)
    views = {f"views/{one.stem}.css" for one in (folder / "views").glob("*.js")}
    assert views == {name for name in rules if re.fullmatch("views/[^/]+", name)}
