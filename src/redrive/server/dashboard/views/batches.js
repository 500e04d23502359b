// Batches: flows that were started together, how far they are, and what failed.

import { html } from "../html.js";
import { post, withQuery } from "../api.js";
import { Counts, CountsBar, ended } from "../components/counts.js";
import { ask } from "../components/dialog.js";
import { Filters } from "../components/filters.js";
import { Empty, Notice, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { Status } from "../components/status.js";
import { Pager, Table } from "../components/table.js";
import { Tags } from "../components/tags.js";
import { Ago } from "../components/time.js";
import { count, plural } from "../format.js";
import { refresh, useLive } from "../live.js";
import { flowPath, query, urlWith } from "../router.js";
import { may, session } from "../session.js";

const FILTERS = [
  { name: "name", label: "Name" },
  { name: "state", label: "State", options: ["all", "running", "done"], usual: "all" },
];
const DONE = { running: "false", done: "true" };

function View() {
  const { limited } = session.value;
  const name = query.value.get("name");
  const cursor = query.value.get("cursor");
  const done = DONE[query.value.get("state")];
  const path = name ? `/v1/batches/${encodeURIComponent(name)}` : withQuery("/v1/batches", { done, cursor });
  const live = useLive(limited ? null : path);
  return html`
    <${PageHead} title="Batches" lead="Flows that were started together: how far they are, and what failed." />
    ${!limited && html`<${Filters} of=${FILTERS} label="Filter batches" />`}
    ${
      limited
        ? html`<${Notice}>Your key is limited to some flows, and batches have those of others too: they are not shown.<//>`
        : live.data === null
          ? html`<${Waiting} live=${live} what="batches" />`
          : html`<${Batches} batches=${name ? [live.data] : (live.data.batches ?? [])} filtered=${Boolean(done)} />
              <${Pager} cursor=${live.data.next} isFirst=${!cursor} urlOf=${(next) => urlWith({ cursor: next })} />`
    }
  `;
}

const FIRST = `batch = await app.batch("night 2026-11-19", [resize(one) for one in images])`;
const COMMAND = "redrive batch start 'night 2026-11-19' shop.flows:resize images.jsonl";

function NoBatches({ filtered }) {
  if (filtered) return html`<${Empty} title="No batch matches"><p><a href="/batches">Show all batches</a></p><//>`;
  return html`<${Empty} title="No batch yet">
    <p>Start many flows under one name, and they are counted, awaited, cancelled and redriven together:</p>
    <pre tabindex="0">${FIRST}</pre>
    <p>or on the command line:</p>
    <pre tabindex="0">${COMMAND}</pre>
  <//>`;
}

function Batches({ batches, filtered }) {
  return html`<${Table}
    caption="Batches, the newest first"
    rows=${batches}
    id=${(one) => one.name}
    empty=${html`<${NoBatches} filtered=${filtered} />`}
    columns=${COLUMNS.filter((column) => column.title !== "Actions" || may("operate"))}
  />`;
}

const COLUMNS = [
  {
    title: "Batch",
    cell: (
      one,
    ) => html`<a data-row href=${`/flows?${new URLSearchParams({ batch: one.name })}`}><bdi>${one.name}</bdi></a>
      <${Tags} tags=${one.tags} />`,
  },
  { title: "State", cell: (one) => html`<${State} one=${one} />` },
  {
    title: "Flows",
    wide: true,
    cell: (one) =>
      html`<${CountsBar} counts=${one.counts} total=${one.total ?? undefined} /><p class="batch-progress">${progress(one)}</p><${Counts} counts=${one.counts} filter=${{ batch: one.name }} />`,
  },
  { title: "Added", number: true, cell: (one) => html`<${Ago} at=${one.created_at} />` },
  {
    title: "Actions",
    hideTitle: true,
    cell: (one) => html`<span class="row-actions">
      ${one.counts.failed > 0 && html`<button class="button small main" onClick=${() => redrive(one)}>Redrive failed …</button>`}
      ${!one.is_done && html`<button class="button small danger" onClick=${() => cancel(one)}>Cancel …</button>`}
    </span>`,
  },
];

/** Not rounded up: only what has ended wholly is 100 %. */
function progress(one) {
  if (one.total === null)
    return `${plural(
      Object.values(one.counts).reduce((sum, number) => sum + number, 0),
      "flow",
    )} so far: they are being added`;
  const share = one.total ? Math.floor((100 * ended(one.counts)) / one.total) : 100;
  return `${count(ended(one.counts))} of ${plural(one.total, "flow")} ended (${share} %)`;
}

function State({ one }) {
  const following =
    one.on_done &&
    html`<span class="cell-note">${one.done_at ? html`then <a href=${flowPath(one.on_done)}>a last flow</a>` : "a last flow follows"}</span>`;
  if (!one.is_done) return html`<${Status} of="running" />${following}`;
  const failed = one.counts.failed;
  return html`<${Status} of="done" word=${failed ? `done, ${count(failed)} failed` : "done"} tone=${failed ? "bad" : "good"} />
    ${one.done_at && html`<span class="cell-note"><${Ago} at=${one.done_at} /></span>`}${following}`;
}

const pathOf = (one) => `/v1/batches/${encodeURIComponent(one.name)}`;

function refreshAll() {
  refresh("/v1/batches");
  refresh("/v1/flows");
}

function cancel(one) {
  ask({
    title: `Cancel the batch ${one.name}?`,
    says: "The waits of all its flows that have not ended end, and their code may clean up. A cancelled flow cannot be taken up again.",
    verb: "Cancel the flows",
    danger: true,
    run: async (words) => {
      const { done } = await post(`${pathOf(one)}/cancel`, words);
      refreshAll();
      return `${plural(done, "flow")} will be cancelled.`;
    },
  });
}

function redrive(one) {
  ask({
    title: `Redrive what failed in ${one.name}?`,
    says: "Each flow that failed goes on at the step that failed, with a fresh allowance of attempts. What follows the batch is not started again.",
    verb: `Redrive ${count(one.counts.failed)}`,
    run: async (words) => {
      const { done } = await post(`${pathOf(one)}/redrive`, words);
      refreshAll();
      return `${plural(done, "flow")} will be run again.`;
    },
  });
}

export const route = { path: "/batches", title: "Batches", nav: { key: "b" }, View };
