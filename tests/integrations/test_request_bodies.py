"""Bodies of requests: taken back to their start for each attempt, or sent once."""

import asyncio
import io
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import httpx
import pytest
import requests

import redrive
from redrive.integrations.aiohttp import retry_middleware
from redrive.integrations.http_client.rewinding import rewind_of
from redrive.integrations.httpx import AsyncRetryTransport, RetryTransport
from redrive.integrations.requests import RetryAdapter
from redrive.testing import FlakyServer, Reply

CONTENT = b"0123456789" * 20_000


class Pipe(io.RawIOBase):
    """A file that cannot seek."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._inner.readinto(buffer)


@pytest.fixture
def content_file(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return path


def put_with_httpx(url: str, body: Any) -> object:
    with httpx.Client(transport=RetryTransport()) as client:
        return client.put(url, content=body)


def put_with_requests(url: str, body: Any) -> object:
    with requests.Session() as session:
        session.mount("http://", RetryAdapter())
        return session.put(url, data=body, timeout=5)


def put_with_aiohttp(url: str, body: Any) -> object:
    async def main() -> object:
        async with (
            aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session,
            session.put(url, data=body) as response,
        ):
            return response

    return asyncio.run(main())


every_client = pytest.mark.parametrize("put", [put_with_httpx, put_with_requests, put_with_aiohttp])


@pytest.mark.promise("P10")
@every_client
@pytest.mark.parametrize("trouble", [Reply(status=503), Reply(fault="reset"), Reply(fault="close")], ids=str)
def test_a_file_is_sent_again_from_its_start(put: Any, trouble: Reply, content_file: Path) -> None:
    with FlakyServer(trouble, trouble, then=200) as server, content_file.open("rb") as file:
        put(server.url, file)
        assert [seen.body for seen in server.seen] == [CONTENT] * 3


@pytest.mark.promise("P10")
@every_client
def test_a_file_in_memory_is_sent_again_from_its_start(put: Any) -> None:
    with FlakyServer(503, then=200) as server:
        put(server.url, io.BytesIO(CONTENT))
        assert [seen.body for seen in server.seen] == [CONTENT] * 2


@pytest.mark.promise("P10")
@every_client
def test_a_file_that_cannot_seek_is_sent_once(put: Any) -> None:
    with FlakyServer(503, then=200) as server:
        report = redrive.report_of(put(server.url, Pipe(CONTENT)))
        assert report is not None
        assert report.gave_up.kind == "not_replayable"
        assert [seen.body for seen in server.seen] == [CONTENT]


def parts(file: BinaryIO) -> dict[str, Any]:
    return {"file": ("content", file, "application/octet-stream")}


@pytest.mark.promise("P10")
def test_a_multipart_form_is_sent_again_by_httpx(content_file: Path) -> None:
    with FlakyServer(503, then=200) as server, content_file.open("rb") as file:
        with httpx.Client(transport=RetryTransport()) as client:
            assert client.put(server.url, files=parts(file), data={"name": "n"}).status_code == 200
        first, second = server.seen
        assert first.body == second.body
        assert CONTENT in first.body


@pytest.mark.promise("P10")
def test_a_multipart_form_is_sent_again_by_async_httpx(content_file: Path) -> None:
    async def main() -> None:
        with content_file.open("rb") as file:
            async with httpx.AsyncClient(transport=AsyncRetryTransport()) as client:
                assert (await client.put(server.url, files=parts(file))).status_code == 200

    with FlakyServer(503, then=200) as server:
        asyncio.run(main())
        assert [CONTENT in seen.body for seen in server.seen] == [True, True]


@pytest.mark.promise("P10")
def test_a_multipart_form_with_a_pipe_is_sent_once_by_httpx() -> None:
    with FlakyServer(503, then=200) as server, httpx.Client(transport=RetryTransport()) as client:
        pipe: Any = Pipe(CONTENT)
        report = redrive.report_of(client.put(server.url, files=parts(pipe)))
        assert report is not None
        assert report.gave_up.kind == "not_replayable"


@pytest.mark.promise("P10")
def test_a_multipart_form_is_sent_again_by_requests(content_file: Path) -> None:
    with FlakyServer(503, then=200) as server, content_file.open("rb") as file, requests.Session() as session:
        session.mount("http://", RetryAdapter())
        assert session.put(server.url, files=parts(file), timeout=5).status_code == 200
        assert [CONTENT in seen.body for seen in server.seen] == [True, True]


@pytest.mark.promise("P10")
@pytest.mark.parametrize("whole", [True, False], ids=["file", "generator"])
def test_a_multipart_form_of_aiohttp_is_sent_again_if_its_parts_can_be(whole: bool, content_file: Path) -> None:
    async def pieces() -> Any:
        yield CONTENT

    async def main() -> redrive.policies.Report | None:
        with content_file.open("rb") as file:
            with aiohttp.MultipartWriter("form-data") as form:
                form.append(file if whole else pieces())
            async with (
                aiohttp.ClientSession(middlewares=(retry_middleware(),)) as session,
                session.put(server.url, data=form) as response,
            ):
                return redrive.report_of(response)

    with FlakyServer(503, then=200) as server:
        report = asyncio.run(main())
        assert [CONTENT in seen.body for seen in server.seen] == ([True, True] if whole else [True])
        assert (report is None) == whole


@pytest.mark.promise("P10")
def test_pieces_in_a_list_can_be_sent_again() -> None:
    with FlakyServer(503, then=200) as server, httpx.Client(transport=RetryTransport()) as client:
        assert client.put(server.url, content=[b"one ", b"two"]).status_code == 200
        assert [seen.body for seen in server.seen] == [b"one two"] * 2


def test_what_can_be_rewound() -> None:
    file = io.BytesIO(CONTENT)
    file.seek(10)
    rewind = rewind_of(file)
    assert rewind is not None
    file.read()
    rewind()
    assert file.tell() == 10
    never_used_up: list[Any] = [None, b"", "", [], ()]
    assert all(rewind_of(kept) is not None for kept in never_used_up)
    file.close()
    assert all(rewind_of(once) is None for once in (iter([]), Pipe(b""), object(), file))
