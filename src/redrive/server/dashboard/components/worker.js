// One worker: whether it is alive, how busy it is, what it runs, and what blocked its event loop.

import { html } from "../html.js";
import { now } from "../clock.js";
import { count, duration, epoch, plural } from "../format.js";
import { flowPath } from "../router.js";
import { Definition } from "./definition.js";
import { Notice } from "./notice.js";
import { Status } from "./status.js";
import { Ago } from "./time.js";

const RECENT = 600_000;
const SLOTS = {
  loop: "Coroutines",
  thread: "Threads",
  process: "Processes",
  http: "HTTP steps",
  alone: "Suspects, one at a time",
};

export function Worker({ one }) {
  const report = one.report ?? null;
  const id = `worker-${one.name}`;
  return html`<li class="worker card" aria-labelledby=${id}>
    <header class="worker-head">
      <h3 id=${id}><bdi>${one.name}</bdi></h3>
      <${Status} of=${one.alive ? "alive" : "lost"} word=${one.alive ? "alive" : "gone"} />
      <p class="quiet">
        holds ${plural(one.flows, "flow")}${one.alive && html` · up for <${Ago} at=${one.joined_at} suffix="" />`}${report?.version && html` · redrive ${report.version}`}
      </p>
    </header>
    ${!one.alive && html`<p class="worker-note">Its lease ran out <${Ago} at=${one.expires_at} />. Another worker takes over its ${plural(one.flows, "flow")}.</p>`}
    ${report && html`<${Report} report=${report} flows=${one.flows} />`}
    ${one.alive && !report && html`<p class="worker-note quiet">It has not reported yet what it runs.</p>`}
    <${Knows} one=${one} />
  </li>`;
}

function Report({ report, flows }) {
  const held = report.held_loop;
  // What may take the worker down runs alone; that is worth a line only when something does.
  const slots = Object.entries(report.slots ?? {}).filter(
    ([name, slot]) => name !== "alone" || slot.busy + (slot.waiting ?? 0) > 0,
  );
  return html`
    ${held && html`<${HeldLoop} held=${held} />`}
    <div class="slots">
      ${slots.map(
        ([name, slot]) => html`<label key=${name} class="meter ${slot.busy >= slot.size ? "full" : ""}">
          <span>${SLOTS[name] ?? name}: ${count(slot.busy)} of ${count(slot.size)} busy${slot.waiting > 0 && html`, <strong>${count(slot.waiting)} wait for one</strong>`}</span>
          <meter min="0" max=${slot.size} value=${Math.min(slot.busy, slot.size)}></meter>
        </label>`,
      )}
    </div>
    <${Running} running=${report.running ?? []} flows=${flows} />
  `;
}

/** An hour later it is only worth knowing; at first it may be why everything is slow. */
function HeldLoop({ held }) {
  const recent = now.value - epoch(held.at) < RECENT;
  return html`<${Notice} tone=${recent ? "warn" : "quiet"}>
    Code held its event loop for ${duration(held.seconds)}, <${Ago} at=${held.at} />${held.step && html`, in <bdi>${held.step}</bdi>`}${
      held.place && html` at <code>${held.place}</code>`
    }${held.flow_id && html` (<a href=${flowPath(held.flow_id)}>the flow</a>)`}.
    ${recent && " Meanwhile nothing else ran here: await what blocks, or make the action a plain function."}
  <//>`;
}

function Running({ running, flows }) {
  if (!running.length)
    return html`<p class="worker-note quiet">No attempt runs at this moment${flows > 0 && "; its flows are between two attempts, or in line"}.</p>`;
  const longest = [...running].sort((one, other) => Date.parse(one.began_at) - Date.parse(other.began_at));
  return html`<details class="running">
    <summary>Runs ${plural(running.length, "attempt")}: the longest is <bdi>${longest[0].step}</bdi>, for <${Ago} at=${longest[0].began_at} suffix="" /></summary>
    <ul>
      ${longest.map(
        (one) => html`<li key=${`${one.flow_id}/${one.item}`}>
          <a href=${flowPath(one.flow_id)}><bdi>${one.step}</bdi></a>, attempt ${count(one.attempt)}, for <${Ago} at=${one.began_at} suffix="" />
        </li>`,
      )}
    </ul>
  </details>`;
}

function Knows({ one }) {
  return html`<details class="knows">
    <summary>Knows ${plural(one.definitions.length, "definition")}, takes ${one.queues === null ? "all queues" : plural(one.queues.length, "queue")}</summary>
    <ul class="known">
      ${one.definitions.map((name) => html`<li key=${name}><${Definition} of=${name} /></li>`)}
    </ul>
    ${one.queues !== null && html`<p>Queues: <bdi>${one.queues.join(", ")}</bdi></p>`}
  </details>`;
}
