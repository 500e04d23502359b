"""Graphs made by chance: flow of data, depends_on, for_each, optional inputs, conditions, compensations."""

from typing import Any

from hypothesis import strategies as st
from tests.flows.graphs.steps import step

from redrive.flows.graphs.spec import StepSpec

Case = tuple[list[StepSpec], list[str], list[str]]
"""Steps, goals, and the names of the inputs."""


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Case:
    """Inputs: `flag` (true or false) and `items` (a list). Every output is a list, so that all may be gone through."""
    count = draw(st.integers(1, most))
    steps: list[StepSpec] = []
    for at in range(count):
        earlier = [f"s{one}" for one in range(at)]
        inputs: dict[str, Any] = {"flag": "boolean"}
        if draw(st.booleans()):
            inputs["item"] = {"from": "items", "for_each": draw(st.booleans())}
        some = st.lists(st.sampled_from(earlier), unique=True, max_size=3) if earlier else st.just(list[str]())
        for other in draw(some):
            role = draw(st.sampled_from(["required", "optional", "for_each"]))
            inputs[f"in_{other}"] = {"from": f"out_{other}"}
            if role == "optional":
                inputs[f"in_{other}"]["default"] = None
            elif role == "for_each" and "item" not in inputs:
                inputs[f"in_{other}"]["for_each"] = True
        keys: dict[str, Any] = {"inputs": inputs, "outputs": [f"out_s{at}"]}
        if draw(st.booleans()):
            keys["depends_on"] = draw(some)
        if draw(st.integers(0, 3)) == 0:
            keys["when"] = "flag"
        if draw(st.booleans()):
            keys["compensate"] = "undo"
        steps.append(step(f"s{at}", **keys))
    steps.append(step("undo", inputs={"flag": "boolean"}))
    goals = draw(st.lists(st.sampled_from([f"s{at}" for at in range(count)]), unique=True, min_size=1, max_size=3))
    return draw(st.permutations(steps)), goals, ["flag", "items"]
