"""What may be left in a flow's inbox for its owner."""

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag=str.lower):
    by: str = ""
    why: str = ""


class Cancel(Message, frozen=True):
    pass


class Pause(Message, frozen=True):
    pass


class Resume(Message, frozen=True):
    pass


class Redrive(Message, frozen=True):
    pass


AnyMessage = Cancel | Pause | Resume | Redrive
_DECODER: msgspec.json.Decoder[AnyMessage] = msgspec.json.Decoder(AnyMessage)


def write_message(message: AnyMessage) -> str:
    return msgspec.json.encode(message).decode()


def read_message(body: str) -> AnyMessage:
    return _DECODER.decode(body)
