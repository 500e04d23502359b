"""A script as what flows run: its name, its inputs, and what is kept with a flow."""

import msgspec
import pytest

from redrive.errors import ArgumentsError, DeserializationError, ScriptError, SerializationError, UnknownDefinitionError
from redrive.flows.registry import SCRIPT, known_definitions
from redrive.flows.script_driver import script_driver
from redrive.flows.scripts.script import Script, register_script, script_named

TEXT = "fn main(order, lines=[]):\n    return order\nfn refund(order):\n    return None\n"


def test_a_flow_keeps_the_text_and_the_function_it_runs() -> None:
    stored = msgspec.json.decode(Script("orders", TEXT).input_for({"order": 1}))
    assert stored == {"text": TEXT, "function": "main", "inputs": {"order": 1}}
    assert msgspec.json.decode(Script("orders", TEXT).input_for({"order": 1}, "refund"))["function"] == "refund"


@pytest.mark.parametrize(
    ("inputs", "function", "said"),
    [
        ({"ordr": 1}, None, "no input is named 'ordr'; did you mean 'order'?"),
        ({"order": 1, "zzz": 2}, None, "no input is named 'zzz'; the inputs are: order, lines"),
        ({}, None, "the inputs lack order"),
        ({"order": 1}, "refnd", "script orders has no function 'refnd'; did you mean 'refund'?"),
    ],
)
def test_inputs_are_checked_against_the_parameters(inputs: dict[str, int], function: str | None, said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its text is compared
        Script("orders", TEXT).input_for(inputs, function)
    assert str(refused.value) == said


def test_a_script_that_is_known_to_fail_is_not_started() -> None:
    """What it did before it failed would stay done."""
    script = Script("orders", "fn main():\n    @charge()\n    return reciept\n", "orders.rd")
    with pytest.raises(ScriptError) as refused:
        script.input_for({})
    assert str(refused.value).splitlines()[0].startswith("orders.rd:3:12: nothing is named 'reciept'; ")
    # Only what is sure: it runs, but could be better.
    Script("orders", "fn main():\n    @charge() [retry: 3]\n    return 1\n    pass\n").input_for({})


def test_problems_name_the_file_they_are_in_though_another_one_is_the_same() -> None:
    for name in ("first", "second"):
        with pytest.raises(ScriptError, match=f"^{name}.rd:1:8"):
            Script(name, "return nobody_has_this\n", f"{name}.rd").input_for({})


def test_inputs_must_be_plain_data() -> None:
    with pytest.raises(SerializationError, match="script orders: its inputs"):
        Script("orders", TEXT).input_for({"order": {1: 2}})
    with pytest.raises(ArgumentsError):
        Script("orders", TEXT).input_for({})


def test_a_script_with_several_functions_and_no_main_needs_to_be_told_which() -> None:
    script = Script("two", "fn a():\n    pass\nfn b():\n    pass\n")
    with pytest.raises(ValueError, match="script two has no function main; name the one to run: a, b"):
        script.input_for({})
    assert script.function("b").name == "b"


def test_all_errors_of_a_text_are_told_with_their_places() -> None:
    with pytest.raises(ScriptError) as refused:
        Script("orders", "x = = 1\ny = (\n", "shop/orders.rd")
    assert len(refused.value.problems) >= 2
    assert str(refused.value).startswith("shop/orders.rd:1:")


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b"])
def test_names_are_bounded(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name for a script"):
        Script(name, TEXT)


def test_registered_scripts_are_known_by_name_and_the_newest_counts() -> None:
    register_script(Script("shop.orders", "return 1\n"))
    newer = Script("shop.orders", "return 2\n")
    register_script(newer)
    assert script_named("shop.orders") is newer
    assert SCRIPT + "shop.orders" in known_definitions()
    with pytest.raises(
        UnknownDefinitionError, match=r"no script is named 'shop\.order'; did you mean 'shop\.orders'\?"
    ):
        script_named("shop.order")


@pytest.mark.parametrize(
    "stored", ["{}", '{"text": "x = = 1", "function": "main"}', '{"text": "x = 1", "function": "no"}']
)
def test_a_flow_whose_script_cannot_be_read_says_so(stored: str) -> None:
    with pytest.raises(DeserializationError):
        script_driver("orders", "flow-1", stored).start(0.0)
