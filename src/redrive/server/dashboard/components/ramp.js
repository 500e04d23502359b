// What this page has seen of a dependency since it was opened: how fast a recovery goes, and what is left of the budget.

import { html } from "../html.js";
import { now } from "../clock.js";
import { count, duration } from "../format.js";

const MOST = 240;
const WIDTH = 240;
const HEIGHT = 40;
/** @type {Map<string, {last: any, points: {at: number, rate: number, budget: number | null}[]}>} */
const seen = new Map();

/** Note what a snapshot says of a dependency; the same snapshot counts once. */
export function remembered(one, snapshot) {
  const known = seen.get(one.name) ?? { last: null, points: [] };
  seen.set(one.name, known);
  if (known.last === snapshot) return;
  known.last = snapshot;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const budgets = one.workers.map((worker) => worker.budget_left).filter((left) => left !== null && left !== undefined);
  known.points.push({
    at: now.value,
    rate: sum(one.workers.map((worker) => worker.rate ?? 0)),
    budget: budgets.length ? sum(budgets) : null,
  });
  if (known.points.length > MOST) known.points.shift();
}

/** The rate of a recovery and the retry budget, as lines over time. */
export function Ramp({ one }) {
  const points = seen.get(one.name)?.points ?? [];
  if (!points.length) return null;
  const recovering = points.some((point) => point.rate > 0);
  // A budget that nothing draws on says nothing.
  const budgeted = points.some(
    (point) => point.budget !== null && (one.phase !== "closed" || point.budget !== points[0].budget),
  );
  if (!recovering && !budgeted) return null;
  return html`<div class="ramps">
    ${recovering && html`<${Line} title="Calls a second in the recovery" points=${points} of=${(point) => point.rate} tone="busy" digits=${1} />`}
    ${budgeted && html`<${Line} title="Retries that the budget allows" points=${points} of=${(point) => point.budget ?? 0} tone="held" digits=${0} />`}
  </div>`;
}

function Line({ title, points, of, tone, digits }) {
  const highest = Math.max(1, ...points.map(of));
  const [first, last] = [points[0].at, points.at(-1).at];
  const span = Math.max(1, last - first);
  const xOf = (point) => ((point.at - first) / span) * WIDTH;
  const yOf = (point) => HEIGHT - 2 - (of(point) / highest) * (HEIGHT - 4);
  const line = points.map((point) => `${xOf(point)},${yOf(point)}`);
  // The line goes on to the right edge: one point alone would not be seen.
  line.push(`${WIDTH},${yOf(points.at(-1))}`);
  const present = of(points.at(-1));
  const shown = digits ? present.toFixed(digits) : count(present);
  return html`<figure class="ramp">
    <h3>${title}: <span class=${tone}>${shown}</span></h3>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`${title}: ${shown} now, ${count(Math.round(highest))} at most`}>
      <polyline class=${tone} points=${line.join(" ")} />
    </svg>
    <figcaption class="quiet"><span>${span > 1000 ? `${duration(Math.round(span / 1000))} ago` : ""}</span><span>now</span></figcaption>
  </figure>`;
}
