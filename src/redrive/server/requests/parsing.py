"""Parse request bodies, queries and headers by type; errors name the field that is wrong."""

import asyncio
import re
from typing import Any, TypeVar, get_args

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge

from redrive.flows.values.json_limits import MOST_VALUES, has_too_many_values, without_collector
from redrive.notation.place import similar
from redrive.server.context import body_claim_of, context_of
from redrive.server.contract.problems import ProblemError, json_pointer
from redrive.server.transport.body_budget import FREE

T = TypeVar("T")
AnyRequest = Request[Any, Any, Any]

SLASH_IN_NAME = "\x00"
"""Stands for a slash within a name in a path; the middleware refuses paths that contain it."""

_WHERE = re.compile(r" - at (?:key in )?`(\$[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")
_FIELD = re.compile(r"(?:unknown|missing required) field `([^`]*)`")


async def read_body(request: AnyRequest, kind: type[T]) -> T:
    """Return the JSON body, decoded as its type."""
    return decode(await read_bytes(request), kind)


async def read_bytes(request: AnyRequest) -> bytes:
    """Return the body, once there is room for it; ProblemError if it is too large or too slow."""
    announced = check_announced_body(request)
    settings = context_of(request).settings
    if announced is not None and announced > FREE:
        await _claim(request, announced)
    clock = asyncio.get_running_loop()
    began, received, chunks = clock.time(), 0, list[bytes]()
    try:
        async with asyncio.timeout(min(settings.body_grace, settings.body_timeout)) as limit:
            async for chunk in request.stream():
                chunks.append(chunk)
                received += len(chunk)
                if announced is None and received > FREE:
                    limit.reschedule(None)
                    waits_since = clock.time()
                    await _claim(request, settings.largest_body)
                    began += clock.time() - waits_since
                allowed = settings.body_grace + received / settings.body_rate
                limit.reschedule(began + min(allowed, settings.body_timeout))
    except TimeoutError:
        raise ProblemError(408, "the request body took too long to arrive", headers={"Connection": "close"}) from None
    except InternalServerException:
        # The client has disconnected.
        raise ProblemError(400, "the request body ended too soon") from None
    return b"".join(chunks)


def check_announced_body(request: AnyRequest) -> int | None:
    """Return the announced size of the body, None if it is sent in chunks; ProblemError if it would be refused."""
    kind, _ = request.content_type
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise ProblemError(415, "send the body as application/json", parameter="Content-Type")
    if request.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
        raise ProblemError(415, "send the body without compression", parameter="Content-Encoding")
    if "transfer-encoding" in request.headers:
        return None
    text = request.headers.get("content-length", "0")
    size = int(text) if text.isascii() and text.isdigit() else 0
    if size > context_of(request).settings.largest_body:
        raise RequestEntityTooLarge
    return size


async def _claim(request: AnyRequest, size: int) -> None:
    if not await body_claim_of(request.scope).claim(size):
        detail = "the server is busy with other request bodies; try again later"
        raise ProblemError(503, detail, headers={"Retry-After": "1"})


def decode(body: bytes, kind: type[T]) -> T:
    if has_too_many_values(body):
        raise ProblemError(
            413,
            f"the body has more than the {MOST_VALUES:,} values allowed, where lists, objects and keys count as one "
            "more; send less, or store it elsewhere and send a reference",
        )
    try:
        with without_collector(len(body)):
            return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        return _with_whole_numbers(body, kind, error)
    except RecursionError:
        raise ProblemError(400, "the JSON in the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProblemError(400, f"the body is not valid JSON: {error}") from None


def read_query(request: AnyRequest, kind: type[T]) -> T:
    """Return the query parameters as a struct; a list field takes its parameter several times."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}  # type: ignore[arg-type]  # a struct
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in fields:
            raise ProblemError(
                400, f"there is no parameter {name!r}{similar(name, tuple(fields))}", parameter=name[:100]
            )
        if _is_list(fields[name].type):
            given.setdefault(name, []).append(value)
        elif name in given:
            raise ProblemError(400, f"{name} is given more than once", parameter=name)
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        text, path = split_message(str(error))
        if not path and (missing := _FIELD.search(text)):
            raise ProblemError(400, f"the parameter {missing[1]} is missing", parameter=missing[1]) from None
        name = str(path[0]) if path else ""
        raise ProblemError(400, f"{name}: {text}", parameter=name) from None


def path_parameter(request: AnyRequest, name: str) -> str:
    value: str = request.path_params[name]
    return value.replace(SLASH_IN_NAME, "/")


def read_header(request: AnyRequest, name: str, longest: int) -> str | None:
    value = request.headers.get(name)
    if value is None:
        return None
    if not value or len(value) > longest or not (value.isascii() and value.isprintable()):
        raise ProblemError(400, f"use 1 to {longest} printable ASCII characters", parameter=name)
    return value


def _with_whole_numbers(body: bytes, kind: type[T], error: msgspec.ValidationError) -> T:
    """Decode again, taking 5.0 for the integer 5, as JSON does; ProblemError if that was not the problem."""
    data: Any = None
    while "got `float`" in str(error):
        data = msgspec.json.decode(body) if data is None else data
        if not _make_whole(data, split_message(str(error))[1]):
            break
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError as next_error:
            error = next_error
    raise _type_error(error, kind) from None


def _make_whole(data: Any, path: tuple[str | int, ...]) -> bool:
    for step in path[:-1]:
        data = data[step]
    value = data[path[-1]] if path else None
    if isinstance(value, float) and value.is_integer():
        data[path[-1]] = int(value)
        return True
    return False


def _is_list(kind: Any) -> bool:
    return getattr(kind, "__origin__", kind) is list or any(_is_list(one) for one in get_args(kind))


def _type_error(error: msgspec.ValidationError, kind: Any) -> ProblemError:
    text, path = split_message(str(error))
    if field := _FIELD.search(text):
        if "unknown" in text and not path and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            text += similar(field[1], kind.__struct_encode_fields__)
        path = (*path, field[1])
    return ProblemError(400, text, pointer=json_pointer(path))


def split_message(message: str) -> tuple[str, tuple[str | int, ...]]:
    """Split a message of msgspec into what is wrong, and the path to the field."""
    found = _WHERE.search(message)
    if found is None:
        return message, ()
    path: list[str | int] = []
    for step in _STEP.finditer(found[1]):
        if step[3]:
            break
        path.append(step[1] if step[1] is not None else int(step[2]))
    return message[: found.start()], tuple(path)
