"""A background job: a flow of one action."""

from typing import Any

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.action import ActionCall, action_named
from redrive.flows.commands import Command, EndFlow, ScheduleItem
from redrive.flows.driver import Driver
from redrive.flows.stored_policy import read_stored_policy, write_stored_policy
from redrive.flows.values.signature import NOT_READ
from redrive.policies.policy import Policy


class Job(msgspec.Struct, frozen=True, gc=False):
    """The stored input of a job."""

    args: msgspec.Raw
    policy: msgspec.Raw


_DECODER = msgspec.json.Decoder(Job)


def write_job(call: ActionCall[Any], policy: Policy) -> str:
    policy_text = bytes(write_stored_policy(policy)).decode()
    return f'{{"args":{call.arguments.encoded},"policy":{policy_text}}}'


def read_job(text: str) -> Job:
    try:
        return _DECODER.decode(text)
    except msgspec.MsgspecError as error:
        raise DeserializationError(f"the stored input of this job cannot be read: {error}") from None


class JobDriver(Driver):
    """Runs the action once and ends the flow with its outcome."""

    __slots__ = ("_action", "_input")

    def __init__(self, action: str, input: str) -> None:  # noqa: A002 - as the record calls it
        self._action = action_named(action).name
        self._input = input

    def start(self, at: float) -> list[Command]:
        job = read_job(self._input)
        return [ScheduleItem(self._action, bytes(job.args).decode(), None, read_stored_policy(job.policy), None, "")]

    def completed(self, item: int, result: str, at: float, read: Any = NOT_READ) -> list[Command]:
        return [EndFlow("completed", result=result)]

    def failed(self, item: int, error: BaseException, at: float) -> list[Command]:
        return [EndFlow("failed", error=error)]

    def resolved(self, item: int, at: float) -> list[Command]:
        return [EndFlow("completed", result="null")]

    def cancel(self, at: float) -> list[Command]:
        return [EndFlow("cancelled")]

    def bind_item(self, command: ScheduleItem, item: int) -> None:
        command.item = item
