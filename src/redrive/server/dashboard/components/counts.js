// How many flows are in each state: of a batch, or the children of a flow.

import { html } from "../html.js";
import { count } from "../format.js";

// From the left: what has ended, then what goes on, then what is still to begin.
const STATES = [
  ["completed", "good"],
  ["failed", "bad"],
  ["cancelled", "quiet"],
  ["pruned", "quiet"],
  ["running", "busy"],
  ["parked", "warn"],
  ["paused", "held"],
  ["waiting", "wait"],
  ["ready", "wait"],
];
const ENDED = ["completed", "failed", "cancelled", "pruned"];
const WIDTH = 200;
const HEIGHT = 6;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** How many of the flows have ended. */
export const ended = (counts) => sum(ENDED.map((state) => counts[state] ?? 0));

/** counts: {state: number}; total: how many flows there will be, those counted by default. */
export function CountsBar({ counts, total = sum(Object.values(counts)) }) {
  const whole = Math.max(1, total);
  const shown = STATES.filter(([state]) => counts[state] > 0);
  const label = shown.map(([state]) => `${count(counts[state])} ${state}`).join(", ") || "no flows";
  let from = 0;
  return html`<svg class="counts-bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="rest" width=${WIDTH} height=${HEIGHT} />
    ${shown.map(([state, tone]) => {
      const wide = (counts[state] / whole) * WIDTH;
      from += wide;
      return html`<rect key=${state} class=${tone} x=${from - wide} width=${wide} height=${HEIGHT}><title>${count(counts[state])} ${state}</title></rect>`;
    })}
  </svg>`;
}

/** The counts as links to the flows. filter: which flows they are, as the list of flows takes it. */
export function Counts({ counts, filter }) {
  return html`<ul class="counts">
    ${STATES.filter(([state]) => counts[state] > 0).map(([state, tone]) => {
      const text = html`<span class="count-key ${tone}" aria-hidden="true"></span>${count(counts[state])} ${state}`;
      const url = `/flows?${new URLSearchParams({ ...filter, status: state })}`;
      return html`<li key=${state}>${state === "pruned" ? html`<span title="They ended so long ago that they are no longer kept">${text}</span>` : html`<a href=${url}>${text}</a>`}</li>`;
    })}
  </ul>`;
}
