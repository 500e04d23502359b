"""A pipeline's layout with a set of interceptors: everything that its runs share."""

from collections.abc import Sequence

from redrive.calls.function_kinds import is_async
from redrive.calls.retrier import Retrier
from redrive.pipeline.coroutine_functions import is_definitely_sync
from redrive.pipeline.hooks import Hooks, hooks_of
from redrive.pipeline.interceptors.base import BaseInterceptor
from redrive.pipeline.interceptors.idempotency import IdempotencyInterceptor
from redrive.pipeline.layout import Layout
from redrive.pipeline.stage_retriers import StageRetriers


class Plan:
    """The layout, the validated interceptors, and the retrier of each stage."""

    def __init__(self, layout: Layout, interceptors: Sequence[BaseInterceptor]) -> None:
        for one in interceptors:
            _check(one)
            if isinstance(one, IdempotencyInterceptor):
                for spec in layout.specs.values():
                    one.check_can_forget(spec)
        self.layout = layout
        self.interceptors = tuple(interceptors)
        self._by_priority = sorted(interceptors, key=lambda one: one.priority)
        self._optional = [one for one in self._by_priority if type(one).in_use is not BaseInterceptor.in_use]
        self._hooks: dict[tuple[bool, ...], Hooks] = {}
        retriers = StageRetriers(interceptors)
        self.retriers: dict[str, Retrier] = {name: retriers.retrier_for(spec) for name, spec in layout.specs.items()}

    def current_hooks(self) -> Hooks:
        """Return the hooks for a run that begins now: those of the interceptors that are in use."""
        in_use = tuple(one.in_use() for one in self._optional)
        hooks = self._hooks.get(in_use)
        if hooks is None:
            unused = {id(one) for one, used in zip(self._optional, in_use, strict=True) if not used}
            hooks = self._hooks[in_use] = hooks_of([one for one in self._by_priority if id(one) not in unused])
        return hooks


def _check(interceptor: BaseInterceptor) -> None:
    if not isinstance(interceptor, BaseInterceptor):
        raise TypeError(f"interceptors: {interceptor!r} is not an interceptor; derive its class from BaseInterceptor")
    what = type(interceptor).__name__
    if isinstance(interceptor.priority, bool) or not isinstance(interceptor.priority, int | float):
        raise TypeError(f"interceptors: {what} has the priority {interceptor.priority!r}; use a number such as 30")
    for name in ("before", "after", "on_error"):
        if is_definitely_sync(getattr(interceptor, name)):
            raise TypeError(
                f"interceptors: {name} of {what} is not a coroutine function; write: async def {name}(self, ...)"
            )
    for name in ("on_cancel", "in_use"):
        if is_async(getattr(interceptor, name)):
            raise TypeError(f"interceptors: {name} of {what} must not be async; write: def {name}(self, ...)")
