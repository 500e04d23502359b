// The graph of a flow's steps, drawn in layers from left to right, with the state of each.

import { html } from "../../html.js";
import { Section } from "../../components/page.js";
import { toneOf } from "../../components/status.js";
import { cut, plural } from "../../format.js";

const WIDTH = 172;
const HEIGHT = 50;
const GAP_X = 54;
const GAP_Y = 18;
const PAD = 6;

/** Steps in layers: each stands right of all it depends on. */
export function layersOf(steps) {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const depth = new Map();
  const depthOf = (step, path) => {
    if (depth.has(step.name)) return depth.get(step.name);
    if (path.has(step.name)) return 0;
    const inPath = new Set(path).add(step.name);
    const found = Math.max(-1, ...step.after.map((name) => byName.get(name)).filter(Boolean).map((one) => depthOf(one, inPath))) + 1;
    depth.set(step.name, found);
    return found;
  };
  const layers = [];
  for (const step of steps) (layers[depthOf(step, new Set())] ??= []).push(step);
  return untangled(layers.filter(Boolean));
}

/** Each layer in the order of the middle of what its steps depend on, so that fewer edges cross. */
function untangled(layers) {
  const rank = new Map();
  return layers.map((layer) => {
    const middle = (step) => {
      const ranks = step.after.map((name) => rank.get(name)).filter((one) => one !== undefined);
      return ranks.length ? ranks.reduce((sum, one) => sum + one, 0) / ranks.length : 0;
    };
    const sorted = [...layer].sort((one, other) => middle(one) - middle(other));
    for (const [place, step] of sorted.entries()) rank.set(step.name, place - (sorted.length - 1) / 2);
    return sorted;
  });
}

export function StepGraph({ steps, timeline }) {
  if (!steps.some((step) => step.after.length)) return null;
  const layers = layersOf(steps);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const height = tallest * (HEIGHT + GAP_Y) - GAP_Y + 2 * PAD;
  const width = layers.length * (WIDTH + GAP_X) - GAP_X + 2 * PAD;
  const place = new Map();
  for (const [column, layer] of layers.entries()) {
    const top = (height - (layer.length * (HEIGHT + GAP_Y) - GAP_Y)) / 2;
    for (const [row, step] of layer.entries()) {
      place.set(step.name, { x: PAD + column * (WIDTH + GAP_X), y: top + row * (HEIGHT + GAP_Y) });
    }
  }
  const rowOf = new Map(timeline.filter((entry) => entry.type === "item").map((entry) => [entry.step, `item-${entry.number}`]));
  return html`<${Section} title="Graph" aside=${plural(steps.length, "step")}>
    <div class="card graph" role="region" aria-label="The graph of the steps" tabindex="0">
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
        ${steps.flatMap((step) =>
          step.after
            .filter((name) => place.has(name))
            .map((name) => html`<${Edge} key=${`${name}>${step.name}`} from=${place.get(name)} to=${place.get(step.name)} />`),
        )}
        ${steps.map((step) => html`<${Node} key=${step.name} step=${step} at=${place.get(step.name)} row=${rowOf.get(step.name)} />`)}
      </svg>
    </div>
  <//>`;
}

function Edge({ from, to }) {
  const x1 = from.x + WIDTH;
  const y1 = from.y + HEIGHT / 2;
  const x2 = to.x;
  const y2 = to.y + HEIGHT / 2;
  const bend = Math.max(20, (x2 - x1) / 2);
  return html`<path class="edge" d=${`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />`;
}

function Node({ step, at, row }) {
  const done = step.items.filter((item) => item.state === "completed").length;
  const items = step.items.length > 1 ? ` · ${done} of ${step.items.length}` : "";
  const tries = Math.max(0, ...step.items.map((item) => item.attempts));
  const attempts = tries > 1 ? ` · attempt ${tries}` : "";
  const text = `${step.state}${items}${attempts}`;
  const inner = html`
    <title>${`${step.name}: ${text}${step.why ? `; ${cut(step.why)}` : ""}`}</title>
    <rect x=${at.x} y=${at.y} width=${WIDTH} height=${HEIGHT} rx="7" />
    <text x=${at.x + 12} y=${at.y + 21} class="node-name">${cut(step.name, 21)}</text>
    <text x=${at.x + 12} y=${at.y + 39} class="node-state">${cut(text, 26)}</text>
  `;
  const look = `node ${toneOf(step.state)}`;
  return row ? html`<a class=${look} href=${`#${row}`}>${inner}</a>` : html`<g class=${look}>${inner}</g>`;
}
