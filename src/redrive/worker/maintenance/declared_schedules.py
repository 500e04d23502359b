"""Write the schedules that the code declares, once for each worker."""

import logging

from redrive.determinism.clock import Clock, whole_microseconds
from redrive.errors import CommitUnknownError, LeaseLostError, ScheduleError, StoreUnavailableError
from redrive.failures.traces import trace_of
from redrive.flows.schedules.declared import DECLARED
from redrive.flows.schedules.definition import define, is_replaced_by
from redrive.flows.schedules.schedule import ScheduleSpec, read_schedule_body
from redrive.stores.interface import Store
from redrive.worker.schedule_rows import row_of

log = logging.getLogger("redrive")


class DeclaredSchedules:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asserted: dict[str, ScheduleSpec] = {}

    async def assert_new(self) -> None:
        """Write those that are declared and were not written yet by this worker."""
        for name, spec in list(DECLARED.items()):
            if self._asserted.get(name) == spec:
                continue
            try:
                while not await self._write(name, spec):
                    pass
            except (StoreUnavailableError, LeaseLostError):
                raise
            except Exception as error:  # noqa: BLE001 - the worker and the other schedules go on
                log.error("schedule %r of the code is not written\n%s", name, trace_of(error))
            self._asserted[name] = spec

    async def _write(self, name: str, spec: ScheduleSpec) -> bool:
        """Write the schedule; return False when somebody else wrote it meanwhile, so that it must be read again."""
        row = await self._store.find_schedule(name)
        known = None if row is None else read_schedule_body(name, row.body)
        if known is not None and not is_replaced_by(known.spec, spec):
            if known.spec != spec:
                log.info("schedule %r is kept: revision %d is newer than the code's", name, known.spec.revision)
            return True
        now = whole_microseconds(self._clock.wall())
        try:
            defined = define(name, spec, now, known)
        except ScheduleError as error:
            # A time that has passed by now: the code was right when it was written.
            log.info("schedule %r is not added: %s", name, error)
            return True
        latest = row_of(defined, 0 if row is None else row.version)
        try:
            return await self._store.write_schedule(latest) is not None
        except CommitUnknownError:
            return False
