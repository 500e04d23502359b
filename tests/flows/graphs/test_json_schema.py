"""The JSON Schema of graphs agrees with the reader."""

import copy
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.flows.graphs.order import ORDER

from redrive.errors import GraphError
from redrive.flows.graphs.notation.graph_reading import read_graph
from redrive.flows.graphs.notation.json_schema import graph_schema
from redrive.notation.formats import template, work_config
from redrive.notation.source import load_document

PAGE = Path(__file__).parents[3] / "docs" / "graphs.md"
CHECK = jsonschema.Draft202012Validator(graph_schema())


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(graph_schema())


def test_it_names_the_keys_that_the_readers_of_policies_take() -> None:
    step = graph_schema()["$defs"]["step"]["properties"]
    assert tuple(step["work_config"]["properties"]) == work_config.KEYS
    assert tuple(step["retry"]["properties"]) == template.KEYS


def test_it_takes_what_the_documentation_shows() -> None:
    graphs = re.findall(r"^```yaml[^\n]*\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    graphs = [text for text in graphs if "steps:" in text]
    assert graphs
    for text in [*graphs, ORDER]:
        CHECK.validate(load_document(text).data)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (("steps", "reserve", "retry"), {}),
        (("steps", "reserve", "action"), "x"),
        (("steps", "ship", "mode"), "sync"),
        (("steps", "reserve", "inputs", "channel", "from"), "x"),
        (("goals",), []),
        (("template",), "x"),
        (("steps", "check", "endpoint"), "ftp://x"),
    ],
)
def test_it_knows_what_cannot_stand_together(change: tuple[str, ...], value: Any) -> None:
    data = copy.deepcopy(load_document(ORDER).data)
    inner = data
    for key in change[:-1]:
        inner = inner[key]
    inner[change[-1]] = value
    assert not CHECK.is_valid(data)
    with pytest.raises(GraphError):
        read_graph(data)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 700) | st.sampled_from(["x", "string", "http://h/", "1s", "", "a b"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "value", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.data())
def test_what_the_schema_refuses_the_reader_refuses(data: st.DataObject) -> None:
    graph = copy.deepcopy(load_document(ORDER).data)
    for _ in range(data.draw(st.integers(1, 2))):
        inner: Any = graph
        while True:
            key = data.draw(st.sampled_from(list(inner) if isinstance(inner, dict) else list(range(len(inner)))))
            deeper = isinstance(inner[key], dict | list) and inner[key]
            if not deeper or data.draw(st.integers(0, 3)) == 0:
                break
            inner = inner[key]
        what = data.draw(st.sampled_from(["replace", "remove", "rename"]))
        if what == "replace" or isinstance(inner, list):
            inner[key] = data.draw(_anything)
        elif what == "remove" and len(graph) > 1:
            del inner[key]
        else:
            inner[data.draw(st.sampled_from(["retry", "value", "x", "endpoint"]))] = inner.pop(key)
    if not CHECK.is_valid(graph):
        with pytest.raises(GraphError):
            read_graph(graph)
