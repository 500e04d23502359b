// Definitions: what the workers have registered, under which policies, and how often each step fails.

import { html, useState } from "../html.js";
import { Definition } from "../components/definition.js";
import { Empty, Waiting } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { count, definitionParts, duration, plural } from "../format.js";
import { useLive } from "../live.js";

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
          : html`<form class="filter-row" role="search" onSubmit=${(event) => event.preventDefault()}>
                <label class="filter wide"><span>Search</span><input data-search value=${wanted} placeholder="a definition, a step, a dependency" onInput=${(event) => setWanted(event.target.value)} /></label>
              </form>
              ${found.length ? html`<${Found} found=${found} />` : html`<${Empty} title="No definition matches" />`}`
    }
  `;
}

function matches(one, wanted) {
  const words = [one.name, ...one.steps.flatMap((step) => [step.name, step.dependency ?? ""])];
  return !wanted || words.some((word) => word.toLowerCase().includes(wanted));
}

const isIdle = (one) => !one.steps.length && !one.flows.active && !one.flows.dead;

function Found({ found }) {
  const busy = found
    .filter((one) => !isIdle(one))
    .sort((one, other) => other.flows.active - one.flows.active || one.name.localeCompare(other.name));
  const idle = found.filter(isIdle);
  return html`
    ${busy.map((one) => html`<${Card} key=${one.name} one=${one} />`)}
    ${
      idle.length > 0 &&
      html`<${Section} title="Registered, without flows of their own in the last hour">
        <ul class="idle">
          ${idle.map((one) => html`<li key=${one.name}><${Definition} of=${one.name} /> <span class="quiet">· ${one.workers ? plural(one.workers, "worker") : "no worker"}</span></li>`)}
        </ul>
      <//>`
    }
  `;
}

function Card({ one }) {
  const id = `definition-${one.name}`;
  const { kind, name } = definitionParts(one.name);
  const of = `?${new URLSearchParams({ definition: one.name })}`;
  return html`<article class="definition-card card" aria-labelledby=${id}>
    <header class="definition-head">
      <h2 id=${id}><a data-row href=${`/flows${of}`}><bdi>${name}</bdi></a> <span class="quiet">${kind}</span></h2>
      ${one.workers ? html`<span class="quiet">on ${plural(one.workers, "worker")}</span>` : html`<${Status} of="lost" word="no worker runs it" tone="bad" />`}
      <span><a href=${`/flows${of}`}>${plural(one.flows.active, "active flow")}</a></span>
      ${one.flows.dead > 0 && html`<span><a href=${`/dead${of}`}>${plural(one.flows.dead, "dead letter")}</a></span>`}
    </header>
    <${Table}
      caption=${`Steps of ${name}`}
      rows=${one.steps}
      id=${(step) => step.name}
      empty=${html`<p class="quiet definition-none">No step was attempted in the last hour.</p>`}
      columns=${COLUMNS}
    />
  </article>`;
}

const COLUMNS = [
  {
    title: "Step",
    cell: (step) =>
      html`<bdi>${step.name}</bdi>${step.dependency && html`<span class="cell-note">calls <a href="/dependencies"><bdi>${step.dependency}</bdi></a></span>`}`,
  },
  { title: "Policy", wide: true, cell: (step) => html`<${PolicyOf} step=${step} />` },
  { title: "Failed", cell: (step) => html`<${Failed} step=${step} />` },
  { title: "Succeeded", number: true, cell: (step) => count(step.succeeded) },
  { title: "Retried", number: true, cell: (step) => count(step.retried) },
  {
    title: "Gave up",
    number: true,
    cell: (step) => html`<span class=${step.gave_up ? "bad-text" : ""}>${count(step.gave_up)}</span>`,
  },
  { title: "Takes", number: true, cell: (step) => duration(step.mean_seconds) },
];

const ORIGINS = { default: "the default of durable work", action: "set for the action" };

function PolicyOf({ step }) {
  if (!step.policy) return html`<span class="quiet">not known: its code is not in this process</span>`;
  return html`<details class="policy-of">
      <summary>${inShort(step.policy)}</summary>
      <pre tabindex="0">${step.policy}</pre>
    </details>
    <span class="cell-note">${ORIGINS[step.policy_from] ?? step.policy_from} · <a href=${`/policies?${new URLSearchParams({ text: step.policy })}`}>when it retries</a></span>`;
}

/** The settings of a policy in redrive's own notation that matter most: "attempts 3, backoff exponential 1s, 2 rules". */
function inShort(policy) {
  const said = ["attempts", "backoff", "deadline"].map((key) => [
    key,
    new RegExp(`^${key}: (.+)$`, "m").exec(policy)?.[1],
  ]);
  const rules = policy.match(/^\s*- match:/gm)?.length ?? 0;
  const words = said.filter(([, value]) => value && value !== "none").map(([key, value]) => `${key} ${value}`);
  return [...words, rules && plural(rules, "rule")].filter(Boolean).join(", ") || "a policy";
}

function Failed({ step }) {
  const failed = step.retried + step.gave_up;
  const all = step.succeeded + failed;
  if (!all) return html`<span class="quiet">no attempts</span>`;
  const share = failed / all;
  const words = `${share > 0 && share < 0.001 ? "under 0.1" : (share * 100).toFixed(share < 0.1 && share > 0 ? 1 : 0)} %`;
  return html`<label class="meter ${share > 0.1 ? "full" : ""}"><span>${words} of ${count(all)}</span><meter min="0" max="1" value=${share}></meter></label>`;
}

export const route = {
  path: "/definitions",
  title: "Steps and definitions",
  nav: { key: "s", title: "Definitions" },
  View,
};
