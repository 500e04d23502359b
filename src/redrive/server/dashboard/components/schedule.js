// What can be done to a schedule, and its times in words.

import { html } from "../html.js";
import { post } from "../api.js";
import { duration, plural } from "../format.js";
import { refresh } from "../live.js";
import { may } from "../session.js";
import { ask } from "./dialog.js";
import { Status } from "./status.js";
import { Ago, Time } from "./time.js";

const pathOf = (one) => `/v1/schedules/${encodeURIComponent(one.name)}`;

/** The path of a schedule's view. */
export const schedulePath = (name) => `/schedules/${encodeURIComponent(name)}`;

/** When it fires: "0 2 * * * in Europe/Berlin", "every 10m", "once, at 2:00". */
export function When({ timing }) {
  if (timing.cron) return html`<code>${timing.cron}</code> <span class="quiet">in ${timing.timezone}</span>`;
  if (timing.every) return html`every ${duration(timing.every)}`;
  return html`once, at <${Time} at=${timing.at} />`;
}

export function ScheduleState({ one }) {
  if (one.state === "paused") {
    return html`<${Status} of="paused" />
      <span class="cell-note">by <bdi>${one.pause.by || "someone"}</bdi> <${Ago} at=${one.pause.at} />: <bdi>${one.pause.why}</bdi></span>`;
  }
  if (one.state === "ended") return html`<${Status} of="ended" /><span class="cell-note">it has no tick to come</span>`;
  return html`<${Status} of="active" tone="good" />
    ${one.pending && html`<span class="cell-note">the tick of <${Time} at=${one.pending} /> waits for the running flow to end</span>`}`;
}

/** The flow that a tick started. `flowPath`: where it is shown. */
export function RunStatus({ run }) {
  return run.status ? html`<${Status} of=${run.status} />` : html`<${Status} of="removed" />`;
}

const REASONS = { overlap: "an earlier flow still ran", missed: "no worker was there in time" };

/** Why a tick started nothing. */
export const skipReason = (reason) => REASONS[reason] ?? reason;

/** How many ticks were skipped, and why. */
export function Skipped({ one }) {
  const parts = [];
  if (one.overlapped) parts.push(`${plural(one.overlapped, "tick")}: ${REASONS.overlap}`);
  if (one.missed) parts.push(`${plural(one.missed, "tick")}: ${REASONS.missed}`);
  return parts.map((part) => html`<span key=${part} class="skipped">${part}</span>`);
}

/** The buttons of a schedule; `all` also offers a backfill. */
export function ScheduleActions({ one, all = false }) {
  if (!may("operate")) return null;
  const small = all ? "" : "small";
  return html`
    ${
      one.pause
        ? html`<button class="button main ${small}" onClick=${() => resume(one)}>Resume …</button>`
        : one.state === "active" && html`<button class="button ${small}" onClick=${() => pause(one)}>Pause …</button>`
    }
    <button class="button ${small}" onClick=${() => trigger(one)}>Trigger …</button>
    ${all && html`<button class="button" onClick=${() => backfill(one)}>Backfill …</button>`}
  `;
}

function pause(one) {
  ask({
    title: `Pause the schedule ${one.name}?`,
    says: "It starts no flow until it is resumed, and does not make up for it then. Its running flows go on.",
    verb: "Pause it",
    run: async (words) => {
      await post(`${pathOf(one)}/pause`, words);
      refresh("/v1/schedules");
      return `The schedule ${one.name} is paused.`;
    },
  });
}

function resume(one) {
  ask({
    title: `Resume the schedule ${one.name}?`,
    says: "It goes on with its next tick. What fell due meanwhile is not made up for.",
    verb: "Resume it",
    run: async (words) => {
      await post(`${pathOf(one)}/resume`, words);
      refresh("/v1/schedules");
      return `The schedule ${one.name} goes on.`;
    },
  });
}

function trigger(one) {
  ask({
    title: `Trigger the schedule ${one.name}?`,
    says: "A flow starts now, also while an earlier one runs or the schedule is paused. The next tick stays as it is.",
    verb: "Start a flow",
    run: async (words) => {
      const { flow_id: id } = await post(`${pathOf(one)}/trigger`, words);
      refresh("/v1/schedules");
      return `The schedule ${one.name} started the flow ${id}.`;
    },
  });
}

function backfill(one) {
  ask({
    title: `Fill back the schedule ${one.name}?`,
    says: "The flows of all ticks in this time that have none yet start now, all at once. Doing so again starts none.",
    verb: "Start the flows",
    fields: [
      { name: "begin", label: "From", hint: "in your time zone", kind: "time" },
      { name: "end", label: "To", hint: "up to now", kind: "time" },
    ],
    run: async ({ begin, end, ...words }) => {
      const span = { begin: new Date(begin).toISOString(), end: new Date(end).toISOString() };
      const done = await post(`${pathOf(one)}/backfill`, { ...words, ...span });
      refresh("/v1/schedules");
      const rest = done.existing ? `; ${plural(done.existing, "tick")} had one already` : "";
      return `${plural(done.started.length, "flow")} started${rest}.`;
    },
  });
}
