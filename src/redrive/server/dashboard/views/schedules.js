// Schedules: when each fires next, what it started last, and what it skipped.

import { html } from "../html.js";
import { withQuery } from "../api.js";
import { Definition } from "../components/definition.js";
import { Empty, Notice, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { RunStatus, ScheduleActions, schedulePath, ScheduleState, Skipped, When } from "../components/schedule.js";
import { Pager, Table } from "../components/table.js";
import { Ago, Countdown, Time } from "../components/time.js";
import { count } from "../format.js";
import { useLive } from "../live.js";
import { flowPath, query, urlWith } from "../router.js";
import { may, session } from "../session.js";

function View() {
  const cursor = query.value.get("cursor");
  const { limited } = session.value;
  const live = useLive(limited ? null : withQuery("/v1/schedules", { cursor }));
  return html`
    <${PageHead} title="Schedules" lead="What starts flows at set times: each tick starts one, however many workers there are." />
    ${
      limited
        ? html`<${Notice}>Your key is limited to some flows, and schedules start those of others too: they are not shown.<//>`
        : live.data === null
          ? html`<${Waiting} live=${live} what="schedules" />`
          : html`<${Schedules} schedules=${live.data.schedules} />
              <${Pager} cursor=${live.data.next} isFirst=${!cursor} urlOf=${(next) => urlWith({ cursor: next })} />`
    }
  `;
}

const FIRST = `@redrive.scheduled(cron="0 2 * * *", timezone="Europe/Berlin")
@redrive.workflow
class Report(redrive.Workflow): ...`;

const COMMAND = "redrive schedules add nightly shop.flows:Report --cron '0 2 * * *'";

function NoSchedules() {
  return html`<${Empty} title="No schedule yet">
    <p>Declare one beside the code that a worker runs:</p>
    <pre tabindex="0">${FIRST}</pre>
    <p>or add one by hand:</p>
    <pre tabindex="0">${COMMAND}</pre>
  <//>`;
}

function Schedules({ schedules }) {
  return html`<${Table}
    caption="Schedules, by name"
    rows=${schedules}
    id=${(one) => one.name}
    empty=${html`<${NoSchedules} />`}
    columns=${COLUMNS.filter((column) => column.title !== "Actions" || may("operate"))}
  />`;
}

const COLUMNS = [
  {
    title: "Schedule",
    cell: (one) => html`<a data-row href=${schedulePath(one.name)}><bdi>${one.name}</bdi></a>
      <span class="cell-note"><${Definition} of=${one.definition} /></span>`,
  },
  { title: "State", wide: true, cell: (one) => html`<${ScheduleState} one=${one} />` },
  {
    title: "Next tick",
    cell: (
      one,
    ) => html`${one.next_at && html`<strong><${Countdown} to=${one.next_at} /></strong><span class="cell-note"><${Time} at=${one.next_at} /></span>`}
      <span class="cell-note"><${When} timing=${one.timing} /></span>`,
  },
  { title: "Last flow", cell: (one) => one.last_runs[0] && html`<${LastRun} run=${one.last_runs[0]} />` },
  { title: "Started", number: true, cell: (one) => count(one.started) },
  {
    title: "Skipped",
    cell: (one) =>
      one.overlapped + one.missed ? html`<${Skipped} one=${one} />` : html`<span class="quiet">none</span>`,
  },
  {
    title: "Actions",
    hideTitle: true,
    cell: (one) => html`<span class="row-actions"><${ScheduleActions} one=${one} /></span>`,
  },
];

function LastRun({ run }) {
  const when = html`<${Ago} at=${run.at} />`;
  return html`<${RunStatus} run=${run} />
    <span class="cell-note">${run.status ? html`<a href=${flowPath(run.flow_id)}>started ${when}</a>` : html`started ${when}`}</span>`;
}

export const route = { path: "/schedules", title: "Schedules", nav: { key: "t" }, View };
