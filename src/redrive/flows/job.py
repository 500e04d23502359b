"""What a background job, a flow of one action, is started with."""

from typing import Any

import msgspec

from redrive.errors import DeserializationError
from redrive.flows.action import ActionCall
from redrive.flows.stored_policy import write_stored_policy
from redrive.policies.policy import Policy


class Job(msgspec.Struct, frozen=True, gc=False):
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
        raise DeserializationError(f"the input of a job: {error}") from None
