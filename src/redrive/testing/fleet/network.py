"""The way from one machine to the store: requests and answers take time, come late, or never."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redrive.errors import CommitUnknownError, StoreError, StoreUnavailableError, StoreUnusableError
from redrive.stores.claimed import Claimed
from redrive.stores.interface import EndListener
from redrive.stores.leases import Lease
from redrive.stores.records import Batch
from redrive.testing.fleet.machine_loop import MachineLoop
from redrive.testing.fleet.server import Server
from redrive.testing.fleet.world import World

# What a driver cannot know to have happened when the answer does not come.
WRITES = frozenset(
    {
        "commit",
        "add_flows",
        "send",
        "close_dead_letters",
        "acquire_lease",
        "configure_queue",
        "prune",
        "prune_runs",
        "put_step",
        "drop_step",
        "write_schedule",
        "drop_schedule",
    }
)
# What a driver fences off when it asks what became of it.
FENCED = frozenset({"commit", "claim"})
# How likely such a request arrives after all when it seems lost, and after how many seconds at most.
LATE = 0.4
LATEST = 1.5
# Seconds after which a machine notices that its connection is gone.
NOTICED_AFTER = 0.8


class Link:
    """What the network does to one machine's requests. Fate changes it as time goes on."""

    def __init__(self) -> None:
        self.latency = 0.0
        """Seconds that a request or an answer takes at most; 0: the store answers at once."""
        self.losses = 0.0
        """How likely a request or its answer is lost."""
        self.lost_wakes = 0.0
        """How likely the machine is not told that there is something to do."""
        self.is_cut = False
        """Nothing gets through, and nobody says so: a partition."""
        self.is_refused = False
        """The store is away, and that is known at once."""
        self.commits = 0
        self.crash_at: tuple[int, bool] | None = None
        """The commit at which the machine is killed, and whether the commit arrives."""
        self.after_commit: tuple[int, Callable[[], None]] | None = None
        """What happens when the answer to this commit has come."""


class NetworkStore:
    """The store as one machine sees it. It behaves as a driver does: what was lost is asked for again."""

    def __init__(self, world: World, server: Server, link: Link, loop: MachineLoop, name: str) -> None:
        self.address = f"simulated://{name}"
        self.kill: Callable[[], None]
        self.is_gone = False
        """Whether the simulation is over: every request fails at once."""
        self._world = world
        self._server = server
        self._link = link
        self._loop = loop
        self._name = name
        self._commits = self._claims = 0
        self._unanswered: dict[int, list[int]] = {}
        """Epoch -> the claims whose answers were lost."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def on_wake(self, wake: Callable[[], None]) -> Callable[[], None]:
        return self._listen(self._server.store.on_wake, wake)

    def on_ended(self, ended: EndListener) -> Callable[[], None]:
        return self._listen(self._server.store.on_ended, ended)

    def lease_renewer(self) -> Any:
        """A machine has one thread, which renews its lease."""
        return self

    def _listen(self, add: Callable[..., Callable[[], None]], callback: Callable[..., None]) -> Callable[[], None]:
        """Have the machine told over its network, which may be slow, or forget it."""
        world, link, loop = self._world, self._link, self._loop

        def told(*about: Any) -> None:
            random = world.random.random
            if link.is_cut or link.is_refused or (link.lost_wakes and random() < link.lost_wakes):
                return
            if not loop.is_closed():
                if link.latency:
                    world.after(link.latency * random(), self._tell, callback, about)
                else:
                    self._tell(callback, about)

        # Added outside of any loop, so that the store calls it directly, whichever machine wrote.
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return add(told)
        finally:
            asyncio._set_running_loop(outer)

    def _tell(self, callback: Callable[..., None], about: tuple[Any, ...]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *about)

    async def commit(self, lease: Lease, batch: Batch) -> None:
        self._commits += 1
        link = self._link
        link.commits += 1
        if link.crash_at is not None and link.commits >= link.crash_at[0]:
            arrives = link.crash_at[1]
            link.crash_at = None
            self._world.story.tell("fate", f"kills {self._name} {'after' if arrives else 'before'} a commit")
            if arrives:
                self._server.call("commit", (lease, batch, self._commits), {})
            self.kill()
            await self._loop.create_future()
        await self._call("commit", lease, batch, self._commits)
        if link.after_commit is not None and link.commits >= link.after_commit[0]:
            happen = link.after_commit[1]
            link.after_commit = None
            happen()

    async def committed(self, lease: Lease, batch: Batch) -> bool:
        answer: bool = await self._call("committed", lease, batch, self._commits + 1)
        return answer

    async def claim(
        self,
        lease: Lease,
        definitions: Sequence[str],
        queues: Sequence[str] | None,
        limit: int,
        now: float,
        skipped: Collection[str] = (),
    ) -> Claimed:
        self._claims += 1
        number = self._claims
        try:
            answer: Claimed = await self._call(
                "claim", lease, definitions, queues, limit, now, skipped, number, self._unanswered.get(lease.epoch, ())
            )
        except (StoreUnavailableError, asyncio.CancelledError):
            self._unanswered.setdefault(lease.epoch, []).append(number)
            raise
        self._unanswered.pop(lease.epoch, None)
        return answer

    def __getattr__(self, verb: str) -> Any:
        if verb.startswith("_"):
            raise AttributeError(verb)
        # Not for what other stores have besides, such as adding flows in the caller's transaction.
        getattr(self._server.store, verb)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(verb, *args, **kwargs)

        setattr(self, verb, call)
        return call

    async def _call(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        link, world = self._link, self._world
        if self.is_gone:
            raise StoreUnusableError("the simulation is over")
        if link.is_refused:
            world.story.tell(self._name, verb, "refused: the store is away")
            raise StoreUnavailableError("the store is away; nothing was changed")
        if not (link.latency or link.losses or link.is_cut):
            return self._carry_out(verb, args, kwargs)
        random = world.random.random
        request: asyncio.Future[Any] = self._loop.create_future()
        if link.is_cut or random() < link.losses / 2:
            world.story.tell(self._name, verb, "is lost")
            if verb in FENCED and not link.is_cut and random() < LATE:
                world.after(LATEST * random(), self._arrive_late, verb, args, kwargs)
            world.after(NOTICED_AFTER * random(), self._fail, verb, request)
        else:
            world.after(link.latency * random(), self._arrive, verb, args, kwargs, request)
        return await request

    def _arrive(self, verb: str, args: Any, kwargs: Any, request: "asyncio.Future[Any]") -> None:
        link, world, error, answer = self._link, self._world, None, None
        random = world.random.random
        try:
            answer = self._carry_out(verb, args, kwargs)
        except Exception as failed:  # noqa: BLE001 - the store's answer
            error = failed
        if link.is_cut or random() < link.losses / 2:
            world.story.tell(self._name, verb, "happened, and its answer is lost")
            world.after(NOTICED_AFTER * random(), self._fail, verb, request)
        else:
            world.after(link.latency * random(), _answer, request, answer, error)

    def _arrive_late(self, verb: str, args: Any, kwargs: Any) -> None:
        """The request was on its way when its connection was lost, and nobody waits for its answer."""
        self._world.story.tell(self._name, verb, "arrives late")
        with contextlib.suppress(StoreError):
            self._carry_out(verb, args, kwargs)

    def _carry_out(self, verb: str, args: Any, kwargs: Any) -> Any:
        if verb in TOLD:
            self._world.story.tell(self._name, verb, *_shown(verb, args))
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return self._server.call(verb, args, kwargs)
        finally:
            asyncio._set_running_loop(outer)

    def _fail(self, verb: str, request: "asyncio.Future[Any]") -> None:
        if not request.done() and not self._loop.is_closed():
            kind = CommitUnknownError if verb in WRITES else StoreUnavailableError
            request.set_exception(kind("the connection was lost before the store answered"))


TOLD = frozenset({"commit", "add_flows", "send", "close_dead_letters", "acquire_lease", "release_lease"})


class _Written:
    """A commit, as a story shows it."""

    def __init__(self, lease: Lease, batch: Batch) -> None:
        self._lease = lease
        self._batch = batch

    def __str__(self) -> str:
        batch = self._batch
        events = (f"\n{'':20}{row.flow_id} {row.seq}: {row.body}" for row in batch.events)
        changes = (f"\n{'':20}{one.flow_id} is {one.status} {one.wake_at or ''}" for one in batch.flows)
        return f"{batch.number} of epoch {self._lease.epoch}{''.join(events)}{''.join(changes)}"


def _shown(verb: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if verb == "commit":
        return (_Written(args[0], args[1]),)
    if verb == "add_flows":
        return tuple(flow.id for flow in args[0])
    if verb.endswith("lease"):
        # What else is registered in this process is no part of the story.
        return (f"of epoch {args[0].epoch}",) if isinstance(args[0], Lease) else ()
    return args[:2]


def _answer(request: "asyncio.Future[Any]", answer: Any, error: Exception | None) -> None:
    if request.done() or request.get_loop().is_closed():
        return
    if error is None:
        request.set_result(answer)
    else:
        request.set_exception(error)
