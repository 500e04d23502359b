"""Build the OpenAPI document from the endpoints and the types that they read and write."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

import redrive
from redrive.server.contract.field_docs import field_docs, struct_classes
from redrive.server.contract.operations import Operation, ResponseSpec
from redrive.server.contract.problems import MEDIA_TYPE, Problem

REFERENCE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"\{(\w+):\w+\}")
ERROR_TEXTS = {
    400: "The request is malformed; `pointer` or `parameter` says where.",
    401: "An API key is required.",
    403: "The API key, or the page that sent the request, may not do this.",
    404: "There is no such resource.",
    405: "This path does not support the method.",
    408: "The request body took too long to arrive.",
    409: "The current state of the resource does not allow this.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is well-formed, but a name or a value in it is refused; `pointer` says which.",
    429: "Too many requests; slow down.",
    503: "The store is unavailable, or the server is overloaded; try again later.",
}
ABOUT = """Runs work that may fail, until it succeeds or until someone knows exactly why it did not.

Every error is a problem (RFC 9457). API keys are sent as `Authorization: Bearer rdk_...` and have the role read,
read:payload, operate or admin; with the role read, payloads and messages are shown by
their size alone. A server without keys accepts requests from its own machine only."""


def document(app: Litestar) -> dict[str, Any]:
    operations = sorted(_operations(app), key=lambda one: (one[0], one[1]))
    kinds: list[Any] = [Problem]
    for _, _, _, operation in operations:
        kinds += [kind for kind in (operation.body, operation.query) if kind is not None]
        kinds += [spec.kind for spec in operation.responses.values() if spec.kind is not None]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    _describe(components, kinds)
    of_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for path, method, name, operation in operations:
        paths.setdefault(path, {})[method] = _operation(path, name, operation, of_kind, components)
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
        for field, text in field_docs(struct).items():
            if field in properties:
                properties[field] = {**properties[field], "description": text}


def _operations(app: Litestar) -> Iterator[tuple[str, str, str, Operation]]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            operation = handler.opt.get("operation")
            if isinstance(handler, HTTPRouteHandler) and operation is not None:
                path = _PARAMETER.sub(r"{\1}", route.path)
                for method in handler.http_methods:
                    yield path, method.lower(), handler.name or handler.fn.__name__, operation


def _operation(
    path: str, name: str, operation: Operation, of_kind: dict[int, Any], components: dict[str, Any]
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "operationId": _operation_id(path, name),
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {str(status): _response(spec, of_kind) for status, spec in operation.responses.items()},
    }
    if operation.description:
        result["description"] = operation.description
    result["responses"] |= {str(status): _problem(status) for status in sorted(_errors(operation))}
    if parameters := [
        *_path_parameters(path),
        *_query_parameters(operation, of_kind, components),
        *_headers(operation),
    ]:
        result["parameters"] = parameters
    if operation.body is not None:
        content: dict[str, Any] = {"schema": of_kind[id(operation.body)]}
        if operation.example is not None:
            content["example"] = operation.example
        result["requestBody"] = {"required": True, "content": {"application/json": content}}
    # If the store has no keys, none is required.
    result["security"] = [] if operation.role is None else [{"key": []}, {}]
    if operation.role is not None:
        result["x-role"] = operation.role
    return result


def _operation_id(path: str, name: str) -> str:
    words = [word for word in re.split(r"\W+", path) if word and word != "v1"]
    return "_".join([*words, name])


def _errors(operation: Operation) -> set[int]:
    errors = {400, 429, 503, *operation.errors}
    if operation.role is not None:
        errors |= {401, 403}
    if operation.body is not None:
        errors |= {408, 413, 415}
    return errors


def _response(spec: ResponseSpec, of_kind: dict[int, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"description": spec.text}
    if spec.kind is not None:
        result["content"] = {spec.media_type: {"schema": of_kind[id(spec.kind)]}}
        for media_type in spec.also:
            result["content"][media_type] = {"schema": {"type": "string"}}
    if spec.headers:
        result["headers"] = {name: {"schema": {"type": "string"}} for name in spec.headers}
    return result


def _problem(status: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "description": ERROR_TEXTS[status],
        "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(name="Problem")}}},
    }
    if status == 429:
        result["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return result


def _path_parameters(path: str) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(operation: Operation, of_kind: dict[int, Any], components: dict[str, Any]) -> Iterator[Any]:
    if operation.query is None:
        return
    schema = components[of_kind[id(operation.query)]["$ref"].rpartition("/")[2]]
    for name, field in schema["properties"].items():
        field = _plain(_without_null(field))
        result = {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": field}
        if text := field.pop("description", ""):
            result["description"] = text
        yield result


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Drop null from a parameter's schema: a parameter is left out, never null."""
    choices = [one for one in field.get("anyOf", ()) if one != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and not (key == "default" and value is None)}
    return rest | choices[0] if len(choices) == 1 else rest | ({"anyOf": choices} if choices else {})


def _headers(operation: Operation) -> Iterator[dict[str, Any]]:
    for name, text in operation.headers.items():
        schema = operation.header_schemas.get(name, {"type": "string"})
        yield {"name": name, "in": "header", "required": False, "description": text, "schema": schema}


def _is_query(name: str, operations: list[Any]) -> bool:
    return name in {operation.query.__name__ for *_, operation in operations if operation.query is not None}


def _plain(schema: Any) -> Any:
    """Drop titles, which only repeat the name."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
