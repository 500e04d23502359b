// Definitions: what the workers have registered, under which policies, and how often each step fails.

import { html, useState } from "../html.js";
import { Empty, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { count, duration, plural } from "../format.js";
import { useLive } from "../live.js";
import { may } from "../session.js";

function View() {
  const live = useLive("/v1/definitions");
  const [wanted, setWanted] = useState("");
  const found = (live.data?.definitions ?? []).filter((one) => matches(one, wanted.toLowerCase()));
  return html`
    <${PageHead} title="Steps and definitions" lead="What the workers have registered: the policy of each step, where it comes from, and how its attempts went in the last hour." />
    ${
      live.data === null
        ? html`<${Waiting} live=${live} what="definitions" />`
        : live.data.definitions.length === 0
          ? html`<${Empty} title="No definition is known"><p>A worker tells which workflows, actions and graphs it runs:</p><pre>redrive worker shop.flows</pre><//>`
          : html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
                <label class="filter wide"><span>Search</span><input data-search value=${wanted} placeholder="a definition, a step, a dependency" onInput=${(event) => setWanted(event.target.value)} /></label>
              </form>
              ${found.length ? found.map((one) => html`<${Definition} key=${`${one.kind}:${one.name}`} one=${one} />`) : html`<${Empty} title="No definition matches" />`}`
    }
  `;
}

function matches(one, wanted) {
  const words = [one.name, one.kind, ...one.steps.flatMap((step) => [step.name, step.dependency ?? ""])];
  return !wanted || words.some((word) => word.toLowerCase().includes(wanted));
}

function Definition({ one }) {
  const id = `definition-${one.kind}-${one.name}`;
  const full = one.kind ? `${one.kind}:${one.name}` : one.name;
  const of = (more) => new URLSearchParams({ definition: full, ...more });
  return html`<article class="definition-card card" aria-labelledby=${id}>
    <header class="definition-head">
      <h2 id=${id}><a data-row href=${`/flows?${of({})}`}><bdi>${one.name}</bdi></a> <span class="quiet">${one.kind}</span></h2>
      ${one.workers ? html`<span class="quiet">on ${plural(one.workers, "worker")}</span>` : html`<${Status} of="lost" word="no worker runs it" tone="bad" />`}
      ${one.flows && html`<span><a href=${`/flows?${of({})}`}>${plural(one.flows.active ?? 0, "active flow")}</a></span>`}
      ${one.flows?.dead > 0 && html`<a class="bad-text" href=${`/dead?${of({})}`}>${plural(one.flows.dead, "dead letter")}</a>`}
    </header>
    <${Table}
      caption=${`Steps of ${one.name}`}
      rows=${one.steps}
      id=${(step) => step.name}
      empty=${html`<p class="quiet definition-none">It has no steps that are known yet.</p>`}
      columns=${COLUMNS}
    />
  </article>`;
}

const COLUMNS = [
  {
    title: "Step",
    cell: (step) => html`<bdi>${step.name}</bdi>${step.dependency && html`<span class="cell-note">calls <a href="/dependencies"><bdi>${step.dependency}</bdi></a></span>`}`,
  },
  { title: "Policy", wide: true, cell: (step) => html`<${PolicyOf} step=${step} />` },
  { title: "Failed", cell: (step) => html`<${Failed} step=${step} />` },
  { title: "Succeeded", number: true, cell: (step) => count(step.succeeded) },
  { title: "Retried", number: true, cell: (step) => count(step.retried) },
  { title: "Gave up", number: true, cell: (step) => html`<span class=${step.gave_up ? "bad-text" : ""}>${count(step.gave_up)}</span>` },
  { title: "Takes", number: true, cell: (step) => duration(step.mean_seconds) },
];

function PolicyOf({ step }) {
  if (!step.policy) return html`<span class="quiet">not known</span>`;
  return html`<bdi class="policy-text">${step.policy}</bdi>
    <span class="cell-note">${step.policy_from && html`from <bdi>${step.policy_from}</bdi>`}${may("read") && html` · <a href=${`/policies?${new URLSearchParams({ text: step.policy })}`}>its waits</a>`}</span>`;
}

function Failed({ step }) {
  if (step.succeeded === null) return html`<span class="quiet">not known</span>`;
  const failed = step.retried + step.gave_up;
  const all = step.succeeded + failed;
  if (!all) return html`<span class="quiet">no attempts</span>`;
  const share = failed / all;
  const words = `${share > 0 && share < 0.001 ? "under 0.1" : (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
  return html`<label class="meter ${share > 0.1 ? "full" : ""}"><span>${words} of ${count(all)}</span><meter min="0" max="1" value=${share}></meter></label>`;
}

export const route = { path: "/definitions", title: "Steps and definitions", nav: { key: "s", title: "Definitions" }, View };
