"""Durable agents with pydantic-ai: in a workflow, each model request and each tool call is a recorded action.

agent = Agent("openai:gpt-5", name="support", capabilities=[RedriveDurability()])

@redrive.workflow
class Support(redrive.Workflow):
    async def run(self, question: str) -> str:
        return (await agent.run(question)).output

After a crash the workflow is replayed: what was recorded is not asked again. redrive alone retries, with the policies
given here; the SDK's own retries are off inside a workflow. Outside of one, the agent runs as it would without this.
"""

import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

try:
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        CallableOperationBackend,
        DurabilityEngineSpec,
        DurableOperationBackend,
        DurableOperationId,
        JournalOperationNamer,
        RoleBasedOperationConfig,
        conversation_id_from_run_id,
    )
except ImportError as error:
    raise ImportError("durable agents need pydantic-ai 2: pip install 'pydantic-ai-slim>=2'") from error

from datetime import datetime

from pydantic_ai.agent import AbstractAgent, EventStreamHandler
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition

from redrive.errors import AttemptLostError
from redrive.flows.action import Action, action, call_action
from redrive.flows.retry_policy import Retry, as_policy
from redrive.flows.stored_policy import DURABLE_DEFAULT
from redrive.flows.workflows.loop import FlowLoop, running_flow_loop
from redrive.flows.workflows.workflow import workflow
from redrive.near_names import near_name
from redrive.policies.policy import Policy

__all__ = ["RedriveDurability"]

# What an agent does, as actions. One for each kind, whatever the model or the tool: a worker must know the actions of
# a flow before it has run any of the flow's code.
_ACTIONS = {
    "ModelRequestId": "model_request",
    "ModelCancelSuspendedResponseId": "cancel_response",
    "ModelCompactMessagesId": "compact_messages",
    "EventStreamHandlerId": "handle_event",
    "ToolsetGetToolsId": "get_tools",
    "ToolsetGetInstructionsId": "get_instructions",
    "ToolsetValidateToolArgumentsId": "validate_tool_arguments",
    "ToolsetCallToolId": "call_tool",
    "CapabilityOperationId": "capability",
}
_OTHER = "operation"

Body = Callable[[], Awaitable[Any]]

# The bodies of the operations that flows in this process wait for. A flow's attempts run where its code runs, so the
# body is always there: after a crash, replaying the code puts it there again.
_BODIES: dict[str, Body] = {}
_counts: "WeakKeyDictionary[FlowLoop, int]" = WeakKeyDictionary()


def _next_call(loop: FlowLoop) -> str:
    """Return an id that is the same whenever the flow's code is replayed."""
    _counts[loop] = number = _counts.get(loop, 0) + 1
    return f"{loop.flow_id}/{number}"


class _Names(JournalOperationNamer):
    """The names of an agent's actions; the name of one call may have that of the tool behind it."""

    def operation_name(self, operation_id: DurableOperationId) -> str:
        return f"{self._agent_name}.{_ACTIONS.get(type(operation_id).__name__, _OTHER)}"


class _Backend(CallableOperationBackend[Policy]):
    """Runs each operation of one agent as an action of the workflow."""

    def __init__(self, agent: str, config: RoleBasedOperationConfig[Policy], default: Policy) -> None:
        self._names = _Names(agent)
        super().__init__(namer=self._names, config=config)
        self.agent = agent
        names = [f"{agent}.{name}" for name in (*_ACTIONS.values(), _OTHER)]
        self._actions = {name: _registered(name, default) for name in names}

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Body,
        cache_key: tuple[object, ...],
        config: Policy,
    ) -> object:
        loop = running_flow_loop()
        if loop is None:
            return await body()
        call, action_name = _next_call(loop), self._names.operation_name(operation_id)
        about = name.removeprefix(action_name).removeprefix(":") or str(getattr(operation_id, "model_id", None) or "")
        _BODIES[call] = body
        try:
            return await call_action(self._actions[action_name](call, about), config)
        finally:
            _BODIES.pop(call, None)


def _registered(name: str, policy: Policy) -> Action[[str, str], Any]:
    async def operation(call: str, about: str) -> Any:  # `about` is for whoever reads the flow's log
        body = _BODIES.get(call)
        if body is None:
            raise AttemptLostError(f"{name}: the flow's code is not in this process yet")
        return await body()

    return action(name=name, retry=policy)(operation)


class RedriveDurability(BaseDurabilityCapability[Any]):
    """Give it to an agent as a capability, and run the agent in a workflow.

    Agent(model, name="support", capabilities=[RedriveDurability(model_policy=RetryPolicy(attempts=8))])
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="redrive",
        durable_unit_noun="action",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        toolset_lifecycles={"function": "enter-never", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
    )

    def __init__(
        self,
        *,
        model_policy: Retry | None = None,
        tool_policy: Retry | None = None,
        tool_policies: Mapping[str, Retry] | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[Any] | None = None,
        name: str | None = None,
    ) -> None:
        """
        model_policy, tool_policy: the policies of model requests and of tool calls, in any form that `retry=` of an
            action takes; the durable default if omitted.
        tool_policies: policies of single tools, by name; instead of `tool_policy`.
        models, event_stream_handler, name: as for pydantic-ai's own durability capabilities; `name` is the agent's if
            omitted, and part of the actions' names.
        """
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._model_policy = as_policy(DURABLE_DEFAULT if model_policy is None else model_policy, None)
        self._tool_policy = as_policy(DURABLE_DEFAULT if tool_policy is None else tool_policy, None)
        self._tool_policies = {tool: as_policy(policy, None) for tool, policy in (tool_policies or {}).items()}
        self._backend: _Backend | None = None
        self._misspelled: set[str] = set()

    def for_agent(self, agent: AbstractAgent[Any, Any]) -> AbstractCapability[Any]:
        # The base class makes a copy for each agent, which asks for its backend while it is bound.
        self._backend = None
        self._misspelled = set()
        return super().for_agent(agent)

    def get_durable_operation_backend(self) -> DurableOperationBackend[Policy]:
        if self._backend is None or self._backend.agent != self.name:
            config = RoleBasedOperationConfig(
                model=self._model_policy,
                event=self._tool_policy,
                capability=self._tool_policy,
                tool=self._tool_policy,
                resolve_tool=self._policy_of_tool,
            )
            self._backend = _Backend(self.name, config, self._tool_policy)
        return self._backend

    def _policy_of_tool(self, operation_id: Any, tool: object | None, tool_name: str) -> Policy | Literal[False]:
        return self._tool_policies.get(tool_name, self._tool_policy)

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        self._warn_of_misspelled_tools([tool.name for tool in tool_defs])
        return tool_defs

    def _warn_of_misspelled_tools(self, tools: list[str]) -> None:
        """Warn, once, of each policy for a tool that is not there while one with a similar name is.

        Only of these: other tools may come with a later step, and a prefix may stand before the name.
        """
        without_policy = [tool for tool in tools if tool not in self._tool_policies]
        for name in self._tool_policies.keys() - self._misspelled:
            if any(tool.endswith(name) for tool in tools) or not (meant := near_name(name, without_policy)):
                continue
            self._misspelled.add(name)
            warnings.warn(
                f"tool_policies: agent {self.name!r} has no tool {name!r}; did you mean {meant!r}?",
                RuntimeWarning,
                stacklevel=2,
            )

    @property
    def in_durable_context(self) -> bool:
        return running_flow_loop() is not None

    def get_model_settings(self) -> Callable[[RunContext[Any]], ModelSettings]:
        def one_owner(ctx: RunContext[Any]) -> ModelSettings:
            return ModelSettings(max_retries=0) if self.in_durable_context else ModelSettings()

        return one_owner

    # What differs from run to run elsewhere must be the same when a workflow is replayed.

    def get_default_run_id(self) -> str | None:
        loop = running_flow_loop()
        return None if loop is None else _next_call(loop)

    def get_default_conversation_id(self, run_id: str) -> str | None:
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        return workflow.now() if self.in_durable_context else None
