"""Read one step of a graph."""

from collections.abc import Mapping
from typing import Any

from redrive.errors import GraphError, UnknownDefinitionError
from redrive.flows.action import Action, action_named
from redrive.flows.dependency_name import LONGEST_DEPENDENCY, is_dependency_name
from redrive.flows.graphs.conditions import ConditionError, check_condition
from redrive.flows.graphs.notation.handlers import HANDLER_KEYS, HTTP_ONLY, read_handler
from redrive.flows.graphs.notation.input_reading import read_inputs, read_outputs
from redrive.flows.graphs.notation.names import read_name, read_names
from redrive.flows.graphs.notation.problems import Problems
from redrive.flows.graphs.notation.signature_inputs import inputs_of_action, parameters_of_action
from redrive.flows.graphs.notation.step_policy import POLICY_KEYS, read_step_policy
from redrive.flows.graphs.spec import ActionHandler, Handler, InputSpec, StepSpec
from redrive.flows.graphs.structure import flaws_of_step
from redrive.flows.stored_policy import DURABLE_DEFAULT, write_stored_policy
from redrive.notation.errors import notation_error
from redrive.notation.fields import Fields
from redrive.notation.place import Place, similar
from redrive.policies.policy import Policy

STEP_KEYS = (
    *HANDLER_KEYS,
    *HTTP_ONLY,
    *("inputs", "outputs", "depends_on", "when", "parallelism"),
    *POLICY_KEYS,
    *("timeout", "idempotent", "dependency", "compensate"),
)
RENAMED = {"retry_limit": "retry: {max_attempts: ...}", "max_attempts": "retry: {max_attempts: ...}"}
MOST_DEPENDENCIES = 10_000
MOST_AT_ONCE = 10_000

_UNREADABLE = ActionHandler(action="")


def read_step(data: Any, place: Place | None = None, *, imports: bool = False) -> StepSpec:
    """Read a single step that has a `name` key. Raises GraphError with all problems.

    imports: import functions named by `handler: package.module:function`; use it only for input you trust.
    """
    place = place or Place("<step>")
    problems = Problems()
    if not isinstance(data, Mapping):
        allowed = f"a mapping with the keys name, {', '.join(STEP_KEYS)}"
        raise GraphError([notation_error("not a step", allowed=allowed, source=place.source, line=place.line)])
    name = ""
    with problems:
        if "name" not in data:
            raise place.at("name").refuse(None, "missing", "the name of the step")
        name = read_name(data["name"], place.at("name"))
    rest = {key: value for key, value in data.items() if key != "name"}
    spec = read_named_step(name, rest, place, problems, imports)
    for flaw in flaws_of_step(spec):
        problems.add(place.at(*flaw.path).refuse(flaw.value, flaw.problem, flaw.allowed))
    problems.raise_found()
    return spec


def read_named_step(
    name: str, data: Any, place: Place, problems: Problems, imports: bool, default: Policy | None = None
) -> StepSpec:
    """Read a step. Keys with problems are left out of the result, so that they cause no further problems.

    default: the policy when the step has none; by default that of its action.
    """
    fields = problems.fields(data, place, STEP_KEYS, "a step", RENAMED)
    if fields is None:
        return StepSpec(name=name, handler=_UNREADABLE, policy=write_stored_policy(DURABLE_DEFAULT))
    handler = read_handler(fields, problems, imports)
    known = _known_action(handler)
    inputs = _read_inputs(fields, known, problems)
    outputs = read_outputs(fields.data["outputs"], place.at("outputs"), problems) if "outputs" in fields else {}
    depends_on: tuple[str, ...] = ()
    with problems:
        if "depends_on" in fields:
            depends_on = read_names(fields.data["depends_on"], place.at("depends_on"), MOST_DEPENDENCIES)
    when = ""
    with problems:
        when = _read_when(fields, inputs)
    parallelism = None
    with problems:
        parallelism = fields.whole("parallelism", None, least=1, most=MOST_AT_ONCE)
    dependency = None
    with problems:
        dependency = _read_dependency(fields)
    compensate = None
    with problems:
        if "compensate" in fields:
            compensate = read_name(fields.data["compensate"], place.at("compensate"))
            if compensate == name:
                raise fields.refuse("compensate", "another step", "a step cannot compensate itself")
    default = default or (known.policy if known else DURABLE_DEFAULT)
    policy = read_step_policy(fields, problems, default)
    return StepSpec(
        name=name,
        handler=handler or _UNREADABLE,
        policy=policy,
        inputs=inputs,
        outputs=outputs,
        depends_on=depends_on,
        when=when,
        parallelism=parallelism,
        dependency=dependency,
        compensate=compensate,
    )


def _read_inputs(fields: Fields, known: Action[..., Any] | None, problems: Problems) -> dict[str, InputSpec]:
    """The inputs as written, or the parameters of a known Python function, which they must match."""
    if "inputs" not in fields:
        return inputs_of_action(known) if known else {}
    at = fields.place.at("inputs")
    written = fields.data["inputs"]
    inputs = read_inputs(written, at, problems)
    if known is None or not isinstance(written, Mapping):
        return inputs
    for name, one in inputs_of_action(known).items():
        if one.role == "required" and name not in written:
            problems.add(at.at(name).refuse(None, "missing, but the function requires it", f"{name}: {one.type}"))
    parameters = parameters_of_action(known)
    if parameters is not None:
        for name in inputs:
            if name not in parameters:
                problem = f"the function has no such parameter{similar(name, parameters)}"
                problems.add(at.at(name).refuse(written[name], problem, ", ".join(parameters) or "no inputs"))
    return inputs


def _known_action(handler: Handler | None) -> Action[..., Any] | None:
    """The registered action; None for an endpoint, or when only other processes have the action."""
    if not isinstance(handler, ActionHandler):
        return None
    try:
        return action_named(handler.action)
    except UnknownDefinitionError:
        return None


def _read_when(fields: Fields, inputs: Mapping[str, InputSpec]) -> str:
    when = fields.data.get("when", "")
    if not isinstance(when, str) or ("when" in fields and not when.strip()):
        raise fields.refuse("when", 'a condition in quotes, such as "total > 0"')
    if when:
        try:
            check_condition(when, inputs)
        except ConditionError as error:
            raise fields.refuse("when", 'a condition over the inputs, such as "total > 0"', str(error)) from None
    return when


def _read_dependency(fields: Fields) -> str | None:
    value = fields.data.get("dependency")
    if "dependency" not in fields or is_dependency_name(value):
        return None if value is None else str(value)
    raise fields.refuse("dependency", f"the name of a dependency, at most {LONGEST_DEPENDENCY} characters")
