"""Steps for tests, in few words."""

from typing import Any

from redrive.flows.graphs.notation.step_reading import read_step
from redrive.flows.graphs.spec import StepSpec


def step(name: str, **keys: Any) -> StepSpec:
    return read_step({"name": name, "endpoint": f"http://127.0.0.1:9000/{name}", **keys})
