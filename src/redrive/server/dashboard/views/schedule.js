// A schedule: its next ticks, its last flows, and the ticks that it skipped.

import { html } from "../html.js";
import { Definition } from "../components/definition.js";
import { Waiting } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { RunStatus, ScheduleActions, ScheduleState, Skipped, skipReason, When } from "../components/schedule.js";
import { Table } from "../components/table.js";
import { Tags } from "../components/tags.js";
import { Ago, Countdown, Time } from "../components/time.js";
import { count, duration } from "../format.js";
import { useLive } from "../live.js";
import { flowPath } from "../router.js";
import { Fact } from "./flow/segment_details.js";

const OVERLAPS = {
  skip: "the tick is skipped",
  queue: "one tick waits for it to end",
  cancel: "it is cancelled",
  allow: "both run",
};

function View({ name }) {
  const live = useLive(`/v1/schedules/${encodeURIComponent(name)}`);
  const one = live.data;
  if (!one) return html`<${PageHead} title="Schedule" /><${Waiting} live=${live} what="the schedule" />`;
  return html`
    <p class="crumbs"><a href="/schedules">Schedules</a></p>
    <${PageHead} title=${html`<bdi>${one.name}</bdi>`}><${ScheduleActions} one=${one} all /><//>
    <section class="standing" aria-label="Where it stands">
      <div class="headline"><${ScheduleState} one=${one} /></div>
      <div class="standing-parts">
        ${one.next_ticks.length > 0 && html`<${NextTicks} one=${one} />`}
        ${one.overlapped + one.missed > 0 && html`<div><h2>Skipped</h2><${Skipped} one=${one} /></div>`}
      </div>
    </section>
    <${Facts} one=${one} />
    <${Section} title="Last flows">
      <${Table} caption="The last flows, newest first" rows=${one.last_runs} id=${(run) => run.flow_id} columns=${RUNS} />
    <//>
    ${
      one.last_skips.length > 0 &&
      html`<${Section} title="Skipped ticks">
        <${Table} caption="The last skipped ticks, newest first" rows=${one.last_skips} id=${(skip) => skip.tick} columns=${SKIPS} />
      <//>`
    }
  `;
}

function NextTicks({ one }) {
  return html`<div>
    <h2>Next ticks</h2>
    <ol class="ticks">
      ${one.next_ticks.map(
        (tick, place) => html`<li key=${tick}>
          <${Time} at=${place ? tick : one.next_at} /> <span class="quiet"><${Countdown} to=${place ? tick : one.next_at} /></span>
        </li>`,
      )}
    </ol>
  </div>`;
}

function Facts({ one }) {
  return html`<dl class="facts across">
    <${Fact} name="Starts"><${Definition} of=${one.definition} /><//>
    <${Fact} name="When"><${When} timing=${one.timing} /><//>
    <${Fact} name="While an earlier flow runs">${OVERLAPS[one.overlap]}<//>
    <${Fact} name="Catches up">${duration(one.catch_up)} after a downtime<//>
    ${one.jitter > 0 && html`<${Fact} name="Jitter">up to ${duration(one.jitter)}<//>`}
    <${Fact} name="Queue"><bdi>${one.queue}</bdi><//>
    <${Fact} name="Flows started">${count(one.started)}<//>
    <${Fact} name="Defined">${one.source === "code" ? "in the code of a worker" : "by hand"}, <${Ago} at=${one.updated_at} /><//>
    ${Object.keys(one.tags).length > 0 && html`<${Fact} name="Tags"><${Tags} tags=${one.tags} /><//>`}
  </dl>`;
}

const RUNS = [
  {
    title: "Flow",
    cell: (run) =>
      run.status
        ? html`<a class="mono" data-row href=${flowPath(run.flow_id)}>${run.flow_id}</a>`
        : html`<code>${run.flow_id}</code>`,
  },
  { title: "Status", cell: (run) => html`<${RunStatus} run=${run} />` },
  {
    title: "Started",
    wide: true,
    cell: (run) => html`<${Time} at=${run.at} /> <span class="quiet"><${Ago} at=${run.at} /></span>
      <span class="cell-note">${run.by ? html`by <bdi>${run.by}</bdi>: <bdi>${run.why}</bdi>` : html`for the tick of <${Time} at=${run.tick} />`}</span>`,
  },
];

const SKIPS = [
  { title: "Tick", cell: (skip) => html`<${Time} at=${skip.tick} />` },
  { title: "Why", wide: true, cell: (skip) => skipReason(skip.reason) },
];

export const route = { path: "/schedules/:name", title: "Schedule", within: "/schedules", View };
