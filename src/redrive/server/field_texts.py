"""What the fields of a struct are for: the texts that stand below them in the code."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec


def struct_classes(kinds: list[Any]) -> dict[str, type]:
    """The structs in these types, however deep, by their names."""
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
            waiting += _inner(one)
    return found


def field_texts(struct: type) -> dict[str, str]:
    """Field -> its text, of the struct and of those it is made from."""
    texts: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if cls is not msgspec.Struct and issubclass(cls, msgspec.Struct):
            texts |= _own_texts(cls)
    return texts


def _own_texts(cls: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        # An installation without its sources.
        return {}
    definition = tree.body[0]
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts: dict[str, str] = {}
    for field, text in pairwise(body):
        is_text = (
            isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        )
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            texts[field.target.id] = inspect.cleandoc(text.value.value)  # type: ignore[attr-defined]  # as was seen
    return texts


def _inner(kind: Any) -> Iterator[Any]:
    """The types that a type is made of."""
    for name in ("item_type", "key_type", "value_type", "type"):
        inner = getattr(kind, name, None)
        if isinstance(inner, msgspec.inspect.Type):
            yield inner
    for name in ("types", "item_types"):
        yield from getattr(kind, name, ())
