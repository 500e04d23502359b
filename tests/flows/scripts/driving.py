"""Run scripts without an engine: actions are plain functions, called one after the other as they are asked for."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from redrive import action
from redrive.flows.asks import Ask, CancelAsk, EndAsk, ItemAsk, TimerAsk
from redrive.flows.script_driver import ScriptDriver
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
    end: EndAsk
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
    driver = ScriptDriver("order", "flow-1", stored(text, inputs))
    now, number, cancelled = 1000.0, 0, 0
    calls: list[tuple[str, dict[str, Any]]] = []
    sleeps: list[float] = []
    waiting: list[tuple[int, ItemAsk | TimerAsk]] = []
    asks: list[Ask] = driver.start(now)
    while True:
        for ask in asks:
            number += 1
            if isinstance(ask, EndAsk):
                driver.discard()
                return Driven(ask, calls, sleeps, cancelled)
            if isinstance(ask, ItemAsk):
                driver.bind_item(ask, number)
                arguments = msgspec.json.decode(ask.args)
                calls.append((ask.step, arguments))
                waiting.append((number, ask))
            elif isinstance(ask, TimerAsk):
                driver.bind_timer(ask, number)
                sleeps.append(ask.time - now)
                waiting.append((number, ask))
            elif isinstance(ask, CancelAsk):
                cancelled += 1
                waiting = [(one, other) for one, other in waiting if other is not ask.ask]
        one, ask = waiting.pop(0)
        if isinstance(ask, TimerAsk):
            now = max(now, ask.time)
            asks = driver.fired(one, now)
            continue
        arguments = msgspec.json.decode(ask.args)
        try:
            result = actions[ask.step](**arguments)
        except Exception as error:
            asks = driver.failed(one, error, now)
        else:
            asks = driver.completed(one, msgspec.json.encode(result).decode(), now)
