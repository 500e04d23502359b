// A batch as a bar: how many of its flows are in each state.

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

export const batchPath = (name) => `/batches?${new URLSearchParams({ name })}`;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** How many of its flows have ended. */
export const ended = (one) => sum(ENDED.map((state) => one.counts[state]));

/** How many flows it has so far: while they are being added, its total is not known. */
export const known = (one) => one.total ?? sum(Object.values(one.counts));

export function CountsBar({ one }) {
  const total = Math.max(1, known(one));
  const shown = STATES.filter(([state]) => one.counts[state] > 0);
  const label = shown.map(([state]) => `${count(one.counts[state])} ${state}`).join(", ") || "no flows";
  let from = 0;
  return html`<svg class="counts-bar" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label=${label}>
    <rect class="rest" width=${WIDTH} height=${HEIGHT} />
    ${shown.map(([state, tone]) => {
      const wide = (one.counts[state] / total) * WIDTH;
      from += wide;
      return html`<rect key=${state} class=${tone} x=${from - wide} width=${wide} height=${HEIGHT}><title>${count(one.counts[state])} ${state}</title></rect>`;
    })}
  </svg>`;
}

/** The counts as links to the flows. */
export function Counts({ one }) {
  return html`<ul class="counts">
    ${STATES.filter(([state]) => one.counts[state] > 0).map(([state, tone]) => {
      const text = html`<span class="count-key ${tone}" aria-hidden="true"></span>${count(one.counts[state])} ${state}`;
      const url = `/flows?${new URLSearchParams({ batch: one.name, status: state })}`;
      return html`<li key=${state}>${state === "pruned" ? html`<span title="They ended so long ago that they are no longer kept">${text}</span>` : html`<a href=${url}>${text}</a>`}</li>`;
    })}
  </ul>`;
}
