// Dependencies: the circuit of each on every worker, what waits behind it, and how it recovers.

import { html } from "../html.js";
import { post } from "../api.js";
import { ask } from "../components/dialog.js";
import { Empty, Notice, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { Ramp, remembered } from "../components/ramp.js";
import { Sparkline } from "../components/sparkline.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { Ago, Countdown } from "../components/time.js";
import { count, plural, waitName } from "../format.js";
import { refresh, useLive } from "../live.js";
import { may } from "../session.js";

const WORST_FIRST = ["open", "half_open", "recovering", "closed", null];

function View() {
  const live = useLive("/v1/dependencies");
  const overview = useLive("/v1/overview");
  const found = [...(live.data?.dependencies ?? [])].sort(
    (one, other) =>
      WORST_FIRST.indexOf(one.phase) - WORST_FIRST.indexOf(other.phase) ||
      other.waiting - one.waiting ||
      one.name.localeCompare(other.name),
  );
  for (const one of found) remembered(one, live.data);
  return html`
    <${PageHead}
      title="Dependencies"
      lead="What the steps call. After too many failures in a row the circuit of a dependency opens: steps wait, and no attempt is spent, until a probe succeeds."
    />
    ${live.data === null && html`<${Waiting} live=${live} what="dependencies" />`}
    ${live.data !== null && !found.length && html`<${Nothing} />`}
    ${found.map((one) => html`<${Dependency} key=${one.name} one=${one} waits=${waitsOf(one, overview.data)} />`)}
  `;
}

function Nothing() {
  return html`<${Empty} title="No dependency is in use">
    <p>Name what a step calls, and all who name it share a circuit and a retry budget:</p>
    <pre>@action(dependency="payments")</pre>
  <//>`;
}

const waitsOf = (one, overview) => (overview?.waits ?? []).filter((wait) => wait.dependency === one.name);

function Dependency({ one, waits }) {
  const id = `dependency-${one.name}`;
  return html`<article class="dependency card" aria-labelledby=${id}>
    <header class="dependency-head">
      <h2 id=${id}><a data-row href=${flowsOf(one)}><bdi>${one.name}</bdi></a></h2>
      <${Phase} one=${one} />
      ${may("operate") && html`<${Actions} one=${one} />`}
    </header>
    <p class="dependency-says"><${Sentence} one=${one} /></p>
    ${one.order && html`<${Order} order=${one.order} />`}
    <div class="dependency-parts">
      <div>
        <h3>The last hour</h3>
        ${one.sparkline ? html`<${Sparkline} minutes=${one.sparkline.minutes} label=${`Attempts against ${one.name} a minute`} series=${seriesOf(one.sparkline)} />` : html`<p class="quiet">Not known yet.</p>`}
      </div>
      <div>
        <h3>What waits behind it</h3>
        <${Behind} one=${one} held=${one.order?.order === "open"} waits=${waits} />
      </div>
      <${Ramp} one=${one} />
    </div>
    <${Workers} one=${one} />
  </article>`;
}

function Phase({ one }) {
  if (one.order?.order === "open") return html`<${Status} of="open" word="held open" />`;
  return one.phase ? html`<${Status} of=${one.phase} />` : html`<${Status} of="unknown" word="not in use" />`;
}

const seriesOf = (line) => [
  { name: "succeeded", tone: "good", values: line.succeeded },
  { name: "retried", tone: "warn", values: line.retried },
  { name: "gave up", tone: "bad", values: line.gave_up },
];

const flowsOf = (one) => `/flows?${new URLSearchParams({ dependency: one.name })}`;

/** What its worst circuit does, and what happens next without the reader. */
function Sentence({ one }) {
  const worst = one.workers.filter((worker) => worker.phase === one.phase);
  const where =
    worst.length === one.workers.length
      ? "on every worker"
      : `on ${count(worst.length)} of ${plural(one.workers.length, "worker")}`;
  const since = earliest(worst.map((worker) => worker.since));
  const probe = earliest(worst.map((worker) => worker.probe_at));
  if (one.order?.order === "open") {
    return html`Held open by hand: nothing is sent, and no probe either, until someone closes it. What waits spends no attempt.`;
  }
  if (!one.workers.length) return "No worker that is alive has called it.";
  if (one.phase === "open") {
    return html`Down ${where}${since && html` for <${Ago} at=${since} suffix="" />`}: nothing is sent. Next comes one probe
    ${probe ? html` <strong><${Countdown} to=${probe} due="now" /></strong>` : " when a step asks"}; if it succeeds, the waiting steps go on by themselves, slowly
    at first; if it fails, they wait again.`;
  }
  if (one.phase === "half_open")
    return html`One probe is under way ${where}. If it succeeds, the waiting steps go on; if it fails, the circuit opens again.`;
  if (one.phase === "recovering") {
    const rate = Math.max(0, ...worst.map((worker) => worker.rate ?? 0));
    return html`Back${since && html` for <${Ago} at=${since} suffix="" />`}, and taken up slowly ${where}: now ${rate.toFixed(rate < 10 ? 1 : 0)} calls a second, more with
    each call that succeeds.`;
  }
  const failures = Math.max(0, ...one.workers.map((worker) => worker.failures));
  if (!failures) return "Works.";
  return `Works, but the last ${failures === 1 ? "call" : `${count(failures)} calls`} of a worker failed; more in a row open its circuit.`;
}

const earliest = (times) => times.filter(Boolean).sort((one, other) => Date.parse(one) - Date.parse(other))[0] ?? null;

function Order({ order }) {
  const how = order.order === "open" ? "Opened" : "Closed";
  return html`<${Notice} tone=${order.order === "open" ? "warn" : "quiet"}>
    ${how} by hand by <bdi>${order.by || "someone"}</bdi> <${Ago} at=${order.at} />: <bdi>${order.why}</bdi>
  <//>`;
}

function Behind({ one, held, waits }) {
  if (!one.waiting && !one.retrying && !waits.length) return html`<p class="quiet">Nothing waits.</p>`;
  return html`<ul class="behind">
    ${waits.map(
      (wait) => html`<li key=${wait.waits_for}>
        <a href=${`${flowsOf(one)}&${new URLSearchParams({ waits_for: wait.waits_for })}`}><strong>${count(wait.count)}</strong> for ${waitName(wait.waits_for)}</a>
        ${wait.next_at && !held && html`<span class="quiet">, the next <${Countdown} to=${wait.next_at} /></span>`}
        ${wait.last_at && !held && wait.last_at !== wait.next_at && html`<span class="quiet">, the last <${Countdown} to=${wait.last_at} /></span>`}
      </li>`,
    )}
    ${!waits.length && html`<li><a href=${flowsOf(one)}><strong>${count(one.waiting + one.retrying)}</strong> ${one.waiting + one.retrying === 1 ? "step" : "steps"}</a></li>`}
    ${one.dead > 0 && html`<li class="bad-text">${plural(one.dead, "flow")} failed for good at it: <a href=${`/dead?${new URLSearchParams({ dependency: one.name })}`}>dead letters</a></li>`}
  </ul>`;
}

function Workers({ one }) {
  return html`<${Table}
    caption=${`The circuit of ${one.name} on each worker`}
    rows=${one.workers}
    id=${(worker) => worker.worker}
    empty=${html`<p class="quiet">No worker that is alive has called it.</p>`}
    columns=${[
      { title: "Worker", cell: (worker) => html`<bdi>${worker.worker}</bdi>` },
      {
        title: "Circuit",
        cell: (worker) =>
          html`<${Status} of=${worker.phase} /> ${worker.since && html`<span class="quiet">for <${Ago} at=${worker.since} suffix="" /></span>`}`,
      },
      {
        title: "Failures in a row",
        number: true,
        // They are counted while calls go out; the circuit that they opened starts the count again.
        cell: (worker) => (worker.phase === "open" ? html`<span class="quiet">–</span>` : count(worker.failures)),
      },
      {
        title: "Probe",
        cell: (worker) =>
          worker.probe_at && worker.phase === "open"
            ? html`<${Countdown} to=${worker.probe_at} />`
            : html`<span class="quiet">–</span>`,
      },
      {
        title: "Calls a second",
        number: true,
        cell: (worker) => (worker.rate ? worker.rate.toFixed(1) : html`<span class="quiet">no limit</span>`),
      },
      { title: "In line", number: true, cell: (worker) => count(worker.in_line) },
      { title: "Retries left", number: true, cell: (worker) => count(worker.budget_left) },
    ]}
  />`;
}

function Actions({ one }) {
  const held = one.order?.order === "open";
  const path = `/v1/dependencies/${encodeURIComponent(one.name)}`;
  const open = () =>
    ask({
      title: `Hold the circuit of ${one.name} open?`,
      says: "On every worker, nothing more is sent to it: steps wait, and spend no attempt, until someone closes it. Attempts that run may finish.",
      verb: "Hold it open",
      danger: true,
      run: async (words) => {
        await post(`${path}/open`, words);
        refresh("/v1/dependencies");
        return `The circuit of ${one.name} opens on every worker within a few seconds, and stays open.`;
      },
    });
  const close = () =>
    ask({
      title: `Close the circuit of ${one.name}?`,
      says: "Every worker closes it now, without waiting for a probe, and takes up what waits slowly at first. If calls still fail, it opens again by itself.",
      verb: "Close it",
      run: async (words) => {
        await post(`${path}/close`, words);
        refresh("/v1/dependencies");
        return `The circuit of ${one.name} closes on every worker within a few seconds.`;
      },
    });
  return html`<div class="dependency-actions">
    ${(held || one.phase === "open" || one.phase === "half_open") && html`<button class="button small" onClick=${close}>Close now …</button>`}
    ${!held && html`<button class="button small danger" onClick=${open}>Hold open …</button>`}
  </div>`;
}

export const route = { path: "/dependencies", title: "Dependencies", nav: { key: "c" }, View };
