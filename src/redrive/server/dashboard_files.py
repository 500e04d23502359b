"""The files of the dashboard, read once and sent from memory with a strict content security policy."""

import gzip
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Any, Self

import msgspec
from litestar.types import Send

FOLDER = "dashboard"
INDEX = "index.html"
NO_MODULES = ("theme.js",)
"""Scripts that the index page runs at once."""
ASSETS = "/assets/"
NOT_PAGES = ("/v1", "/assets", "/metrics", "/openapi.json", "/healthz", "/readyz")
"""What these paths answer is never the page."""
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    "": "text/plain; charset=utf-8",  # LICENSE
}
_COMPRESSED_ALREADY = (".png", ".woff2")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"cache-control", b"no-cache"),
    (b"vary", b"Accept-Encoding"),
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]


class DashboardFile(msgspec.Struct, frozen=True):
    media_type: str
    body: bytes
    compressed: bytes
    """Empty if compressing does not help."""
    digest: str


class DashboardFiles:
    """The files by their URL; without an index page nothing is served."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        sent = {path: body for path, body in contents.items() if _is_sent(path)}
        if INDEX in sent:
            sent[INDEX] = _with_preloads(sent[INDEX], sorted(path for path in sent if path.endswith(".js")))
        self._files = {ASSETS + path: _file(path, body) for path, body in sent.items()}
        self._index = self._files.pop(ASSETS + INDEX, None)

    @classmethod
    def load(cls) -> Self:
        return cls(dict(_read(files("redrive.server") / FOLDER)))

    def find(self, scope: Any) -> DashboardFile | None:
        """Return the file that a request asks for; None if it does not ask for one.

        Every path that nothing else is served at is a view of the page, for a browser that opens it.
        """
        path = scope["path"]
        if self._index is None or scope["method"] not in ("GET", "HEAD"):
            return None
        if path.startswith(ASSETS):
            return self._files.get(path)
        if path == "/" or ("text/html" in _header(scope, b"accept") and not _is_below(path, NOT_PAGES)):
            return self._index
        return None


async def send_file(file: DashboardFile, scope: Any, send: Send) -> None:
    """Send the file, compressed if the client accepts that, or 304 if the client has it."""
    is_compressed = bool(file.compressed) and _accepts_gzip(_header(scope, b"accept-encoding"))
    tag = f'"{file.digest}-gz"' if is_compressed else f'"{file.digest}"'
    headers = [*_HEADERS, (b"etag", tag.encode())]
    known = {one.strip().removeprefix("W/") for one in _header(scope, b"if-none-match").split(",")}
    if tag in known or "*" in known:
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    body = file.compressed if is_compressed else file.body
    headers += [(b"content-type", file.media_type.encode()), (b"content-length", str(len(body)).encode())]
    if is_compressed:
        headers.append((b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body, "more_body": False})


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _with_preloads(index: bytes, scripts: list[str]) -> bytes:
    """Have the browser ask for all modules at once, instead of for those that a module imports once it has read it."""
    links = "".join(f'<link rel="modulepreload" href="{ASSETS}{path}" />' for path in scripts if path not in NO_MODULES)
    return index.replace(b"</head>", links.encode() + b"</head>", 1)


def _is_sent(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix in MEDIA_TYPES and not any(part.startswith((".", "__")) for part in name.parts)


def _file(path: str, body: bytes) -> DashboardFile:
    suffix = PurePosixPath(path).suffix
    # Without a time, so that the same file is the same bytes after a restart.
    packed = b"" if suffix in _COMPRESSED_ALREADY else gzip.compress(body, mtime=0)
    smaller = packed if len(packed) < len(body) else b""
    return DashboardFile(MEDIA_TYPES[suffix], body, smaller, hashlib.sha256(body).hexdigest()[:20])


def _header(scope: Any, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name)


def _accepts_gzip(header: str) -> bool:
    for one in header.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_below(path: str, tops: tuple[str, ...]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
