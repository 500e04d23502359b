"""Read the docstrings below the fields of a struct from its source."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec


def struct_classes(kinds: list[Any]) -> dict[str, type]:
    """Return all structs within these types, by name."""
    found: dict[str, type] = {}
    waiting: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType):
            if one.cls.__name__ in found:
                continue
            found[one.cls.__name__] = one.cls
            waiting += [field.type for field in one.fields]
        else:
            waiting += _inner_types(one)
    return found


def field_docs(struct: type) -> dict[str, str]:
    """Map each field of a struct and of its bases to its docstring."""
    docs: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if cls is not msgspec.Struct and issubclass(cls, msgspec.Struct):
            docs |= _own_docs(cls)
    return docs


def _own_docs(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        # Installed without its sources.
        return {}
    definition = tree.body[0]
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    docs: dict[str, str] = {}
    for field, doc in pairwise(body):
        is_doc = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_doc:
            docs[field.target.id] = inspect.cleandoc(doc.value.value)  # type: ignore[attr-defined]  # a constant, see is_doc
    return docs


def _inner_types(kind: Any) -> Iterator[Any]:
    """Yield the types that a type is made of."""
    for name in ("item_type", "key_type", "value_type", "type"):
        inner = getattr(kind, name, None)
        if isinstance(inner, msgspec.inspect.Type):
            yield inner
    for name in ("types", "item_types"):
        yield from getattr(kind, name, ())
