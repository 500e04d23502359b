// A small plot of counts per minute: stacked bars, with the figures in its label.

import { html } from "../html.js";
import { count, minute } from "../format.js";

const HEIGHT = 40;

/**
 * minutes: epoch seconds; series: [{name, tone: "good" | "warn" | "bad" | "busy", values: [...]}], stacked from below.
 */
export function Sparkline({ minutes, series, label, tall = false }) {
  const totals = minutes.map((_, place) => series.reduce((sum, one) => sum + (one.values[place] ?? 0), 0));
  const highest = Math.max(1, ...totals);
  const height = tall ? HEIGHT * 2 : HEIGHT;
  const sums = series
    .map((one) => `${one.name} ${count(one.values.reduce((sum, value) => sum + value, 0))}`)
    .join(", ");
  return html`<figure class="sparkline">
    <svg viewBox=${`0 0 ${minutes.length * 4} ${height}`} preserveAspectRatio="none" role="img" aria-label=${`${label}: ${sums}`}>
      ${minutes.map((at, place) => html`<${Bar} key=${at} at=${at} place=${place} series=${series} scale=${(height - 1) / highest} height=${height} />`)}
    </svg>
    <figcaption>
      <span>${minutes.length ? minute(minutes[0]) : ""}</span>
      <span class="keys">${series.map((one) => html`<span key=${one.name} class="key ${one.tone}">${one.name}</span>`)}</span>
      <span>now</span>
    </figcaption>
  </figure>`;
}

function Bar({ at, place, series, scale, height }) {
  let top = height;
  const values = series.map((one) => one.values[place] ?? 0);
  return html`<g>
    <title>${`${minute(at)}: ${series.map((one, which) => `${one.name} ${count(values[which])}`).join(", ")}`}</title>
    <rect x=${place * 4} y="0" width="4" height=${height} class="backdrop" />
    ${series.map((one, which) => {
      if (!values[which]) return null;
      const tall = Math.max(1, values[which] * scale);
      top -= tall;
      return html`<rect key=${one.name} x=${place * 4 + 0.5} y=${Math.max(0, top)} width="3" height=${tall} class=${one.tone} />`;
    })}
  </g>`;
}
