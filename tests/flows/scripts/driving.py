"""Run scripts without an engine: actions are plain functions, called one after the other as they are asked for."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from redrive import action
from redrive.flows.commands import CancelItem, Command, EndFlow, ScheduleItem, StartTimer
from redrive.flows.script_driver import script_driver
from redrive.flows.scripts.script import Script, ScriptInput

Actions = Mapping[str, Callable[..., Any]]
NONE: Mapping[str, Any] = MappingProxyType({})


def work(n: Any) -> Any:
    """Gives its argument back; some numbers it refuses."""
    if isinstance(n, int | float) and n % 5 == 4:
        raise LookupError(f"no {n}")
    return n


def give(n: Any) -> Any:
    return n


def note(what: Any) -> None:
    pass


ACTIONS: Actions = {f"rd.{one.__name__}": one for one in (work, give, note)}
for name, function in ACTIONS.items():
    action(name=name)(function)


class Driven(NamedTuple):
    end: EndFlow
    calls: list[tuple[str, dict[str, Any]]]
    """Actions in the order in which they were asked for."""
    sleeps: list[float]
    cancelled: int

    @property
    def result(self) -> Any:
        if self.end.error is not None:
            raise self.end.error
        return msgspec.json.decode(self.end.result)

    @property
    def error(self) -> BaseException:
        assert self.end.error is not None, self.end.result
        return self.end.error


def stored(text: str, inputs: Mapping[str, Any] = NONE) -> str:
    """What a flow was started with, also with a text that would be refused today."""
    function = Script("order", text).function().name
    return msgspec.json.encode(ScriptInput(text=text, function=function, inputs=dict(inputs))).decode()


def drive(text: str, actions: Actions = ACTIONS, inputs: Mapping[str, Any] = NONE) -> Driven:
    driver = script_driver("order", "flow-1", stored(text, inputs))
    now, number, cancelled = 1000.0, 0, 0
    calls: list[tuple[str, dict[str, Any]]] = []
    sleeps: list[float] = []
    waiting: list[tuple[int, ScheduleItem | StartTimer]] = []
    commands: list[Command] = driver.start(now)
    while True:
        for command in commands:
            number += 1
            if isinstance(command, EndFlow):
                driver.discard()
                return Driven(command, calls, sleeps, cancelled)
            if isinstance(command, ScheduleItem):
                driver.bind_item(command, number)
                arguments = msgspec.json.decode(command.args)
                calls.append((command.step, arguments))
                waiting.append((number, command))
            elif isinstance(command, StartTimer):
                driver.bind_timer(command, number)
                sleeps.append(command.time - now)
                waiting.append((number, command))
            elif isinstance(command, CancelItem):
                cancelled += 1
                waiting = [(one, other) for one, other in waiting if other is not command.scheduled]
        if driver.has_more:
            commands = driver.more(now)
            continue
        one, command = waiting.pop(0)
        if isinstance(command, StartTimer):
            now = max(now, command.time)
            commands = driver.fired(one, now)
            continue
        arguments = msgspec.json.decode(command.args)
        try:
            result = actions[command.step](**arguments)
        except Exception as error:
            commands = driver.failed(one, error, now)
        else:
            commands = driver.completed(one, msgspec.json.encode(result).decode(), now)
