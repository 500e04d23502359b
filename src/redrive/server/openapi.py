"""The OpenAPI document: made from the endpoints and the very types that they read and write."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

import redrive
from redrive.server.field_texts import field_texts, struct_classes
from redrive.server.operations import Operation, Says
from redrive.server.problems import MEDIA_TYPE, Problem

REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+):\w+\}")
ERROR_TEXTS = {
    400: "The request cannot be read, or does not fit; `pointer` or `parameter` says where.",
    401: "An API key is needed.",
    403: "The key, or the page that asks, may not do this.",
    404: "There is no such thing.",
    405: "The method is not one of this path.",
    408: "The body took too long to arrive.",
    409: "It cannot be done as things are.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request can be read, but names or values in it are refused; `pointer` says which.",
    429: "Too many requests: slow down.",
    503: "The store cannot be used now, or too much is going on: try again later.",
}
ABOUT = """Runs work that fails until it succeeds, or until someone knows exactly why it did not.

Every error is a problem (RFC 9457). Keys: `Authorization: Bearer rdk_...`, with the role read, operate or admin. A
server without keys answers only the machine it runs on."""


def document(app: Litestar) -> dict[str, Any]:
    operations = sorted(_operations(app), key=lambda one: (one[0], one[1]))
    kinds: list[Any] = [Problem]
    for _, _, _, about in operations:
        kinds += [kind for kind in (about.body, about.query) if kind is not None]
        kinds += [says.kind for says in about.answers.values() if says.kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    _describe(components, kinds)
    of_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for path, method, name, about in operations:
        paths.setdefault(path, {})[method] = _operation(path, name, about, of_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "redrive", "version": redrive.__version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": {name: _plain(schema) for name, schema in components.items() if not _is_query(name, operations)},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "bearerFormat": "rdk_<id>_<secret>"}},
        },
    }


def _describe(components: dict[str, Any], kinds: list[Any]) -> None:
    for name, struct in struct_classes(kinds).items():
        properties = components.get(name, {}).get("properties", {})
        for field, text in field_texts(struct).items():
            if field in properties:
                properties[field] = {**properties[field], "description": text}


def _operations(app: Litestar) -> Iterator[tuple[str, str, str, Operation]]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            about = handler.opt.get("operation")
            if isinstance(handler, HTTPRouteHandler) and about is not None:
                path = _PARAMETER.sub(r"{\1}", route.path)
                for method in handler.http_methods:
                    yield path, method.lower(), handler.name or handler.fn.__name__, about


def _operation(
    path: str, name: str, about: Operation, of_kind: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": _operation_id(path, name),
        "summary": about.summary,
        "tags": [about.tag],
        "responses": {str(status): _response(status, says, of_kind) for status, says in about.answers.items()},
    }
    if about.description:
        said["description"] = about.description
    said["responses"] |= {str(status): _problem(status) for status in sorted(_errors(about))}
    if parameters := [*_path_parameters(path), *_query_parameters(about, of_kind, components), *_headers(about)]:
        said["parameters"] = parameters
    if about.body is not None:
        content: dict[str, Any] = {"schema": of_kind[id(about.body)]}
        if about.example is not None:
            content["example"] = about.example
        said["requestBody"] = {"required": True, "content": {"application/json": content}}
    # Without keys in the store none is asked for.
    said["security"] = [] if about.role is None else [{"key": []}, {}]
    if about.role is not None:
        said["x-role"] = about.role
    return said


def _operation_id(path: str, name: str) -> str:
    words = [word for word in re.split(r"\W+", path) if word and word != "v1"]
    return "_".join([*words, name])


def _errors(about: Operation) -> set[int]:
    errors = {400, 429, 503, *about.errors}
    if about.role is not None:
        errors |= {401, 403}
    if about.body is not None:
        errors |= {408, 413, 415}
    return errors


def _response(status: int, says: Says, of_kind: dict[int, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {"description": says.text}
    if says.kind is not None:
        said["content"] = {says.media_type: {"schema": of_kind[id(says.kind)]}}
        for more in says.also:
            said["content"][more] = {"schema": {"type": "string"}}
    if says.headers:
        said["headers"] = {name: {"schema": {"type": "string"}} for name in says.headers}
    return said


def _problem(status: int) -> dict[str, Any]:
    said: dict[str, Any] = {
        "description": ERROR_TEXTS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
    }
    if status == 429:
        said["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return said


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(about: Operation, of_kind: dict[int, Any], components: dict[str, Any]) -> Iterator[Any]:
    if about.query is None:
        return
    schema = components[of_kind[id(about.query)]["$ref"].rpartition("/")[2]]
    for name, field in schema["properties"].items():
        field = _plain(_without_null(field))
        said = {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": field}
        if text := field.pop("description", ""):
            said["description"] = text
        yield said


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """A parameter is left out, not null."""
    choices = [one for one in field.get("anyOf", ()) if one != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and not (key == "default" and value is None)}
    return rest | choices[0] if len(choices) == 1 else rest | ({"anyOf": choices} if choices else {})


def _headers(about: Operation) -> Iterator[dict[str, Any]]:
    for name, text in about.headers.items():
        schema = about.header_schemas.get(name, {"type": "string"})
        yield {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def _is_query(name: str, operations: list[Any]) -> bool:
    return name in {about.query.__name__ for *_, about in operations if about.query is not None}


def _plain(schema: Any) -> Any:
    """Titles say nothing that the name does not say."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
