"""Schedules at work: one flow a tick, by the overlap and catch-up policy, on every store."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import redrive
from redrive.client.app import App
from redrive.client.schedule_views import ScheduleView
from redrive.errors import ScheduleError, ScheduleNotFoundError
from redrive.flows.schedules.declared import DECLARED
from redrive.flows.schedules.schedule import tick_of_key, tick_text
from redrive.stores.records import FlowQuery, FlowRecord
from redrive.testing import flow_app
from redrive.testing.flows import FlowApp

DAY = 86_400.0
HOUR = 3_600.0


@redrive.workflow(name="schedules.Report")
class Report(redrive.Workflow):
    async def run(self) -> str:
        return redrive.workflow.now().isoformat()


@redrive.workflow(name="schedules.Slow")
class Slow(redrive.Workflow):
    async def run(self, seconds: float = 1500.0) -> None:
        await asyncio.sleep(seconds)


@redrive.action(name="schedules.tidy")
async def tidy(what: str = "all") -> str:
    return what


def play(address: str, story: Callable[[FlowApp], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        async with flow_app(address, **settings) as app:
            # A schedule never ends: time would go on while a test reads the store.
            with app.clock.frozen():
                await app.until(lambda: app._worker is not None and app._worker.joined.is_set())
                await story(app)

    asyncio.run(run())


async def started(app: App) -> list[FlowRecord]:
    """The flows that schedules began, in the order of their ticks."""
    flows = await app.flows(FlowQuery(limit=1000))
    return sorted((flow for flow in flows if tick_of_key(flow.key)), key=lambda flow: flow.key or "")


async def ticks(app: App) -> list[str]:
    found = (tick_of_key(flow.key) for flow in await started(app))
    return [one.tick for one in found if one is not None]


async def until(app: FlowApp, when: float) -> None:
    """Let virtual time pass up to then, and what is due there happen."""
    app.clock._busy -= 1
    await app.clock.asleep(max(0.0, when - app.clock.wall()))
    app.clock._busy += 1


async def seen(app: FlowApp, name: str, condition: Callable[[ScheduleView], bool]) -> ScheduleView:
    """Wait, in real time, until the schedule is as wanted."""
    end = time.monotonic() + 20
    while not condition(view := await app.find_schedule(name)):
        assert time.monotonic() < end, view
        await asyncio.sleep(0.005)
    return view


async def midnight(app: FlowApp) -> float:
    """Go to the beginning of a day."""
    begin = (app.clock.wall() // DAY + 1) * DAY
    await until(app, begin)
    return begin


@pytest.mark.promise("E6")
def test_a_schedule_starts_one_flow_for_each_tick(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        view = await app.schedule("nightly", Report.call(), cron="0 2 * * *", queue="reports", priority=3)
        assert view.next_ticks[:2] == (begin + 2 * HOUR, begin + 2 * HOUR + DAY)
        await until(app, begin + 3 * DAY)
        view = await seen(app, "nightly", lambda view: view.started == 3)
        flows = await started(app)
        assert [flow.created_at for flow in flows] == [begin + 2 * HOUR + day * DAY for day in range(3)]
        assert {(flow.queue, flow.priority, flow.definition) for flow in flows} == {
            ("reports", 3, "workflow:schedules.Report")
        }
        assert [run.flow_id for run in view.last_runs] == [flow.id for flow in reversed(flows)]
        assert await ticks(app) == [tick_text(begin + 2 * HOUR + day * DAY) for day in range(3)]
        assert view.next_at == begin + 3 * DAY + 2 * HOUR

    play(address, story)


@pytest.mark.promise("E6")
def test_an_interval_a_job_and_a_single_time() -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("tidy", tidy("cellar"), every="10m")
        await app.schedule("plain", tidy, at=datetime.fromtimestamp(begin + 90.5, UTC))
        await until(app, begin + HOUR + 1)
        assert (await seen(app, "tidy", lambda view: view.started == 6)).next_at == begin + 70 * 60
        view = await app.find_schedule("plain")
        assert (view.state, view.next_ticks, view.started) == ("ended", (), 1)
        assert view.last_runs[0].tick == begin + 90.5
        results = {await app.handle(flow.id).result() for flow in await started(app)}
        assert results == {"cellar", "all"}

    play("memory://", story)


@pytest.mark.promise("E6")
def test_the_same_schedule_again_changes_nothing_and_another_one_counts_from_now(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        first = await app.schedule("tidy", tidy(), every="1h")
        await until(app, begin + 1800)
        assert await app.schedule("tidy", tidy(), every="1h") == first
        # Only what is started changes: the ticks stay.
        changed = await app.schedule("tidy", tidy("cellar"), every="1h", overlap="allow")
        assert changed.next_at == begin + HOUR
        assert (await app.schedule("tidy", tidy("cellar"), every="2h")).next_at == begin + 1800 + 2 * HOUR
        assert len(await app.schedules()) == 1

    play(address, story)


@pytest.mark.promise("E6")
@pytest.mark.parametrize(
    ("overlap", "expected", "counts"),
    [
        # Flows take 25 minutes, and ticks come every 10.
        ("skip", [10, 40, 70], (3, 3)),
        ("queue", [10, 20, 40, 70], (3, 2)),
        ("allow", [10, 20, 30, 40, 50, 60, 70], (7, 0)),
        ("cancel", [10, 20, 30, 40, 50, 60, 70], (7, 0)),
    ],
)
def test_what_a_tick_does_while_an_earlier_flow_runs(
    address: str, overlap: Any, expected: list[int], counts: tuple[int, int]
) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("slow", Slow, every="10m", overlap=overlap)
        await until(app, begin + 71 * 60)
        due = 7 if overlap != "queue" else 6
        view = await seen(app, "slow", lambda view: (view.next_at or 0) > begin + 70 * 60 and view.started >= 3)
        flows = await started(app)
        minutes = [round((run.tick - begin) / 60) for run in reversed(view.last_runs)]
        if overlap == "queue":
            # 10 runs to 35; 20 is pending, 30 is skipped; 20 runs from 35 to 60; 40 pending, 50 skipped (60: free).
            assert minutes[:2] == [10, 20]
            began = [round((run.at - begin) / 60) for run in reversed(view.last_runs)]
            assert began[:3] == [10, 35, 60]
            assert view.pending is not None or len(flows) == 4
            assert view.started + view.overlapped + (view.pending is not None) == 7
        else:
            assert minutes == expected
            assert (view.started, view.overlapped) == counts if overlap != "skip" else view.started == 3
            assert view.started + view.overlapped == due
        if overlap == "cancel":
            for flow in flows[:-1]:
                assert (await app.outcome(flow.id)).status == "cancelled"
            explained = await app.explain(flows[0].id)
            assert "schedule slow" in str(explained)

    play(address, story)


@pytest.mark.promise("E6")
def test_ticks_of_a_downtime_are_made_up_for_within_the_window(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("all", tidy, every="10m", overlap="allow", catch_up="1h")
        await app.schedule("none", tidy, every="10m", overlap="allow", catch_up=0)
        await until(app, begin + 15 * 60)
        await seen(app, "all", lambda view: view.started == 1)
        await app.kill()
        await until(app, begin + 5 * HOUR)
        assert len(await started(app)) == 2, "nobody was there"
        app.revive()
        view = await seen(app, "all", lambda view: view.missed > 0 and (view.next_at or 0) > begin + 5 * HOUR)
        # Ticks 20 to 230 are more than an hour old; 240 to 300 are started, in their order.
        assert (view.missed, view.started) == (22, 8)
        assert {skip.reason for skip in view.last_skips} == {"missed"}
        made_up = [run for run in view.last_runs if run.tick > begin + HOUR]
        assert [round((run.tick - begin) / 60) for run in reversed(made_up)] == [240, 250, 260, 270, 280, 290, 300]
        none = await seen(app, "none", lambda view: view.missed > 0)
        assert (none.started, none.missed) == (2, 28)

    play(address, story)


@pytest.mark.promise("E6")
def test_a_long_downtime_is_settled_in_pieces() -> None:
    async def story(app: FlowApp) -> None:
        await app.schedule("often", tidy, every="1m", overlap="skip", catch_up="1h")
        await app.kill()
        begin = app.clock.wall()
        await until(app, begin + 2 * DAY)
        app.revive()
        view = await seen(app, "often", lambda view: (view.next_at or 0) > begin + 2 * DAY)
        assert view.started + view.missed + view.overlapped == 2 * 24 * 60
        assert view.missed == 2 * 24 * 60 - 61
        assert len(view.last_skips) == 10

    play("memory://", story)


@pytest.mark.promise("E6")
def test_a_paused_schedule_starts_nothing_and_does_not_make_up_for_it(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("tidy", tidy, every="1h", catch_up="1d")
        assert await app.pause_schedule("tidy", by="ann", why="holidays")
        assert not await app.pause_schedule("tidy", by="bob", why="me too")
        view = await app.find_schedule("tidy")
        assert (view.state, view.next_at, view.next_ticks) == ("paused", None, ())
        assert view.pause is not None
        assert (view.pause.by, view.pause.why) == ("ann", "holidays")
        await until(app, begin + 3.5 * HOUR)
        assert await app.resume_schedule("tidy", by="ann", why="back")
        assert not await app.resume_schedule("tidy", by="ann", why="back")
        await until(app, begin + 4.5 * HOUR)
        view = await seen(app, "tidy", lambda view: view.started > 0)
        assert (view.started, view.missed, view.last_runs[0].tick) == (1, 0, begin + 4 * HOUR)
        assert view.resumed is not None
        assert view.resumed.why == "back"

    play(address, story)


@pytest.mark.promise("E6")
def test_a_schedule_is_triggered_by_hand_also_while_it_is_paused(address: str) -> None:
    async def story(app: FlowApp) -> None:
        await app.schedule("tidy", tidy("now"), cron="0 0 1 1 *")
        await app.pause_schedule("tidy", by="ann", why="holidays")
        handle = await app.trigger_schedule("tidy", by="bob", why="the cellar is full")
        assert (await app.outcome(handle)).result == "now"
        view = await app.find_schedule("tidy")
        assert [(run.flow_id, run.by, run.why) for run in view.last_runs] == [(handle.id, "bob", "the cellar is full")]
        with pytest.raises(ValueError, match="by"):
            await app.trigger_schedule("tidy", by="", why="")

    play(address, story)


@pytest.mark.promise("E6")
def test_a_backfill_starts_the_ticks_that_have_no_flow_and_repeating_it_starts_none(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("nightly", Report, cron="0 2 * * *")
        await until(app, begin + 2 * DAY)
        await seen(app, "nightly", lambda view: view.started == 2)
        first = datetime.fromtimestamp(begin - 3 * DAY, UTC)
        done = await app.backfill_schedule("nightly", first, first + timedelta(days=5), by="ann", why="new report")
        assert (len(done.started), done.existing) == (3, 2)
        assert await ticks(app) == [tick_text(begin + 2 * HOUR + day * DAY) for day in range(-3, 2)]
        again = await app.backfill_schedule("nightly", first, first + timedelta(days=5), by="ann", why="new report")
        assert again == ([], 5)
        for flow_id in done.started:
            assert (await app.outcome(flow_id)).status == "completed"
        future = datetime.fromtimestamp(begin + 9 * DAY, UTC)
        with pytest.raises(ScheduleError, match="is in the future"):
            await app.backfill_schedule("nightly", first, future, by="ann", why="more")
        with pytest.raises(ScheduleError, match="after its end"):
            await app.backfill_schedule("nightly", first, first - timedelta(days=1), by="ann", why="more")
        await app.schedule("often", tidy, every="1s")
        with pytest.raises(ScheduleError, match="more than 10000 ticks"):
            await app.backfill_schedule("often", first, first + timedelta(days=1), by="ann", why="more")

    play(address, story)


def test_an_interval_is_filled_back_before_it_was_made() -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("tidy", tidy, every="10m")
        first = datetime.fromtimestamp(begin - 1800, UTC)
        done = await app.backfill_schedule("tidy", first, first + timedelta(minutes=30), by="ann", why="more")
        assert len(done.started) == 4
        assert await ticks(app) == [tick_text(begin + minute * 60) for minute in (-30, -20, -10, 0)]

    play("memory://", story)


def test_a_schedule_that_is_deleted_starts_nothing_more(address: str) -> None:
    async def story(app: FlowApp) -> None:
        begin = await midnight(app)
        await app.schedule("tidy", tidy, every="1h")
        assert await app.delete_schedule("tidy")
        assert not await app.delete_schedule("tidy")
        await until(app, begin + DAY)
        assert await started(app) == []
        await app.schedule("nightly", Report, cron="0 2 * * *")
        with pytest.raises(ScheduleNotFoundError, match=r"there is no schedule 'nightl' in .*; did you mean 'nightly'"):
            await app.find_schedule("nightl")

    play(address, story)


def test_a_time_that_has_passed_is_refused_but_asking_for_the_same_again_is_not() -> None:
    async def story(app: FlowApp) -> None:
        at = datetime.fromtimestamp(app.now() + 60, UTC)
        await app.schedule("once", tidy, at=at)
        await until(app, at.timestamp() + 1)
        assert (await app.schedule("once", tidy, at=at)).state == "ended"
        with pytest.raises(ScheduleError, match="that time has passed"):
            await app.schedule("twice", tidy, at=at)

    play("memory://", story)


def test_schedules_are_listed_in_pages() -> None:
    async def story(app: FlowApp) -> None:
        for name in "cab":
            await app.schedule(name, tidy, every="1h")
        assert [view.name for view in await app.schedules(limit=2)] == ["a", "b"]
        assert [view.name for view in await app.schedules(after="b")] == ["c"]
        with pytest.raises(ValueError, match="limit"):
            await app.schedules(limit=0)

    play("memory://", story)


# Declared in the code


def declare(**settings: Any) -> None:
    DECLARED.clear()
    redrive.scheduled(**settings)(tidy)


async def restarted(app: FlowApp) -> None:
    """Replace the worker by one that has just been deployed."""
    await app.kill()
    app.revive()


@pytest.mark.promise("E6")
def test_a_declared_schedule_is_written_when_a_worker_starts_and_changed_with_the_code(address: str) -> None:
    declare(every="1h", tags={"team": "cellar"})

    async def story(app: FlowApp) -> None:
        async def exists() -> bool:
            return bool(await app.schedules())

        await wait_for(exists)
        view = await app.find_schedule("schedules.tidy")
        assert (view.every, view.source, view.tags) == (3600, "code", {"team": "cellar"})
        await app.pause_schedule("schedules.tidy", by="ann", why="holidays")
        declare(cron="0 4 * * *")
        await restarted(app)
        view = await seen(app, "schedules.tidy", lambda view: view.cron is not None)
        assert view.state == "paused", "who paused it did not resume it"

    play(address, story)


@pytest.mark.promise("E6")
def test_workers_of_two_versions_do_not_take_turns() -> None:
    declare(every="1h")

    async def story(app: FlowApp) -> None:
        async def exists() -> bool:
            return bool(await app.schedules())

        await wait_for(exists)
        # A newer version of the code, on another worker: what the old worker declared is not written again.
        newer = redrive.flows.schedules.settings.schedule_spec(  # type: ignore[attr-defined]  # loaded by the test
            "action:schedules.tidy", "{}", every="2h", revision=2, source="code"
        )
        await app._schedules.define("schedules.tidy", newer)
        await until(app, app.now() + 3 * HOUR)
        assert (await app.find_schedule("schedules.tidy")).every == 7200
        # Nor by an old worker that starts later, since the newer one has a higher revision.
        await restarted(app)
        await app.schedule("other", tidy, every="1h")
        begin = app.now()
        await until(app, begin + 3 * HOUR)
        await seen(app, "other", lambda view: view.started >= 2)
        assert (await app.find_schedule("schedules.tidy")).every == 7200

    play("memory://", story)


def test_what_cannot_be_declared() -> None:
    with pytest.raises(ScheduleError, match="needs a workflow or an action"):
        redrive.scheduled(every="1h")(print)  # type: ignore[type-var]  # which is refused
    with pytest.raises(TypeError, match="missing a required argument: 'what'"):
        redrive.scheduled(every="1h")(needs_an_argument)
    redrive.scheduled(name="same", every="1h")(tidy)
    with pytest.raises(ScheduleError, match="two schedules are named 'same'"):
        redrive.scheduled(name="same", every="1h")(Report)
    with pytest.raises(ScheduleError, match="revision"):
        redrive.scheduled(revision=-1, every="1h")(tidy)


@redrive.action(name="schedules.needs")
async def needs_an_argument(what: str) -> str:
    return what


async def wait_for(condition: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():  # noqa: ASYNC110 - the condition is in a store
            await asyncio.sleep(0.005)
