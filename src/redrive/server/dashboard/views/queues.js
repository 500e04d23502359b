// Queues and workers: how full each queue is, and who is alive, what it runs and what holds it up.

import { html } from "../html.js";
import { post, send } from "../api.js";
import { ask } from "../components/dialog.js";
import { Empty, Notice, Waiting } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { Worker } from "../components/worker.js";
import { count, plural } from "../format.js";
import { refresh, useLive } from "../live.js";
import { may, session } from "../session.js";

function View() {
  const queues = useLive("/v1/queues");
  const workers = useLive(session.value.limited ? null : "/v1/workers");
  return html`
    <${PageHead} title="Queues and workers" lead="Where flows wait for a worker, and the processes that run them." />
    <${Section} title="Queues">
      ${queues.data === null ? html`<${Waiting} live=${queues} what="queues" />` : html`<${Queues} queues=${queues.data.queues} />`}
    <//>
    <${Section} title="Workers" aside=${workers.data && summary(workers.data.workers)}>
      ${
        session.value.limited
          ? html`<${Notice}>Your key is limited to some flows, and the workers run those of others too: they are not shown.<//>`
          : workers.data === null
            ? html`<${Waiting} live=${workers} what="workers" />`
            : html`<${Workers} workers=${workers.data.workers} />`
      }
    <//>
  `;
}

function summary(workers) {
  const alive = workers.filter((one) => one.alive).length;
  const gone = workers.length - alive;
  return `${count(alive)} alive${gone ? `, ${count(gone)} gone: their flows go to the others` : ""}`;
}

function Queues({ queues }) {
  const admin = may("admin");
  return html`<${Table}
    caption="Queues"
    rows=${queues}
    id=${(one) => one.name}
    empty=${html`<${Empty} title="No flow was started yet"><p>A queue appears with its first flow.</p><//>`}
    columns=${[
      {
        title: "Queue",
        cell: (one) =>
          html`<a data-row href=${`/flows?${new URLSearchParams({ queue: one.name })}`}><bdi>${one.name}</bdi></a>`,
      },
      { title: "State", wide: true, cell: (one) => html`<${State} one=${one} />` },
      { title: "Running", cell: (one) => html`<${Running} one=${one} />` },
      { title: "Ready", number: true, cell: (one) => count(one.ready) },
      {
        title: "Waiting",
        number: true,
        cell: (one) =>
          html`${count(one.waiting)}${one.due > 0 && html`<span class="cell-note">${count(one.due)} due</span>`}`,
      },
      { title: "Paused", number: true, cell: (one) => count(one.paused) },
      { title: "Parked", number: true, cell: (one) => count(one.parked) },
      admin && {
        title: "Actions",
        hideTitle: true,
        cell: (one) => html`<span class="row-actions">
          ${
            one.pause
              ? html`<button class="button small main" onClick=${() => resume(one)}>Resume …</button>`
              : html`<button class="button small" onClick=${() => pause(one)}>Pause …</button>`
          }
          <button class="button small" onClick=${() => limit(one)}>Limit …</button>
        </span>`,
      },
    ].filter(Boolean)}
  />`;
}

function State({ one }) {
  if (one.pause) {
    return html`<${Status} of="paused" />
      <span class="cell-note">by <bdi>${one.pause.by || "someone"}</bdi> <${Ago} at=${one.pause.at} />: <bdi>${one.pause.why}</bdi></span>`;
  }
  if (one.limit !== null && one.running >= one.limit) {
    const behind = one.ready + one.due;
    return html`<${Status} of="full" word="at its limit" tone="warn" />${behind > 0 && html`<span class="cell-note">${plural(behind, "flow")} wait for a place</span>`}`;
  }
  return html`<${Status} of="active" word="active" tone="good" />`;
}

function Running({ one }) {
  if (one.limit === null)
    return html`<span class="number">${count(one.running)}</span><span class="quiet">, no limit</span>`;
  return html`<label class="meter">
    <span>${count(one.running)} of ${count(one.limit)}</span>
    <meter min="0" max=${one.limit} value=${Math.min(one.running, one.limit)}></meter>
  </label>`;
}

function Workers({ workers }) {
  if (!workers.some((one) => one.alive)) {
    return html`<${Notice} tone="bad"><strong>No worker is alive: no flow goes on.</strong> Start one with <code>redrive worker MODULE</code>.<//>
      ${workers.length > 0 && html`<ul class="workers">${workers.map((one) => html`<${Worker} key=${one.name} one=${one} />`)}</ul>`}`;
  }
  const ordered = [...workers].sort((one, other) => other.alive - one.alive || one.name.localeCompare(other.name));
  return html`<ul class="workers">${ordered.map((one) => html`<${Worker} key=${one.name + one.joined_at} one=${one} />`)}</ul>`;
}

const pathOf = (one) => `/v1/queues/${encodeURIComponent(one.name)}`;

function pause(one) {
  ask({
    title: `Pause the queue ${one.name}?`,
    says: "On every worker, no attempt of its flows begins until it is resumed. Attempts that run may finish.",
    verb: "Pause it",
    run: async (words) => {
      await post(`${pathOf(one)}/pause`, words);
      refresh("/v1/queues");
      return `The queue ${one.name} is paused.`;
    },
  });
}

function resume(one) {
  ask({
    title: `Resume the queue ${one.name}?`,
    says: "Its flows go on where they were.",
    verb: "Resume it",
    run: async (words) => {
      await post(`${pathOf(one)}/resume`, words);
      refresh("/v1/queues");
      return `The queue ${one.name} goes on.`;
    },
  });
}

function limit(one) {
  ask({
    title: `Limit the queue ${one.name}?`,
    says: "So many of its flows run at once, on all workers together. Flows that run already are not stopped.",
    verb: "Set the limit",
    fields: [{ name: "limit", label: "Limit", hint: "empty: no limit", value: one.limit ?? "", optional: true }],
    run: async ({ limit: text }) => {
      if (text !== "" && !/^[1-9]\d*$/.test(text))
        throw new Error(`${text} is not a limit; write a whole number from 1, or nothing for no limit.`);
      await send("PUT", pathOf(one), { limit: text === "" ? null : Number(text) });
      refresh("/v1/queues");
      return text === ""
        ? `The queue ${one.name} has no limit.`
        : `The queue ${one.name} runs ${count(Number(text))} of its flows at once.`;
    },
  });
}

export const route = { path: "/queues", title: "Queues and workers", nav: { key: "q" }, View };
