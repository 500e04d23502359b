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

/**
 * Places in layers: each step stands right of all that it waits for. An edge that passes a layer has a place in it too,
 * {via: name}, so that it runs between the steps and not behind them.
 */
export function layersOf(steps) {
  const byName = new Map(steps.map((step) => [step.name, step]));
  const depth = depthsOf(steps, byName);
  const layers = Array.from({ length: Math.max(...depth.values()) + 1 }, () => []);
  const before = new Map();
  for (const step of steps) {
    layers[depth.get(step.name)].push(step.name);
    before.set(step.name, []);
  }
  const edges = [];
  for (const step of steps) {
    for (const name of step.after.filter((one) => byName.has(one))) {
      const points = [name];
      for (let layer = depth.get(name) + 1; layer < depth.get(step.name); layer += 1) {
        const via = `${name}\n${step.name}\n${layer}`;
        layers[layer].push(via);
        before.set(via, [points.at(-1)]);
        points.push(via);
      }
      before.get(step.name).push(points.at(-1));
      edges.push([...points, step.name]);
    }
  }
  return { layers: untangled(layers, before), edges };
}

function depthsOf(steps, byName) {
  const depth = new Map();
  const depthOf = (step, path) => {
    if (depth.has(step.name)) return depth.get(step.name);
    if (path.has(step.name)) return 0;
    const inPath = new Set(path).add(step.name);
    const known = step.after.map((name) => byName.get(name)).filter(Boolean);
    const found = Math.max(-1, ...known.map((one) => depthOf(one, inPath))) + 1;
    depth.set(step.name, found);
    return found;
  };
  for (const step of steps) depthOf(step, new Set());
  return depth;
}

/** Each layer in the order of the middle of what its places come after, so that fewer edges cross. */
function untangled(layers, before) {
  const rank = new Map();
  return layers.map((layer) => {
    const middle = (name) => {
      const ranks = before.get(name).map((one) => rank.get(one));
      return ranks.length ? ranks.reduce((sum, one) => sum + one, 0) / ranks.length : 0;
    };
    const sorted = [...layer].sort((one, other) => middle(one) - middle(other));
    for (const [place, name] of sorted.entries()) rank.set(name, place - (sorted.length - 1) / 2);
    return sorted;
  });
}

export function StepGraph({ steps, timeline }) {
  if (!steps.some((step) => step.after.length)) return null;
  const { layers, edges } = layersOf(steps);
  const tallest = Math.max(...layers.map((layer) => layer.length));
  const height = tallest * (HEIGHT + GAP_Y) - GAP_Y + 2 * PAD;
  const width = layers.length * (WIDTH + GAP_X) - GAP_X + 2 * PAD;
  const place = new Map();
  for (const [column, layer] of layers.entries()) {
    const top = (height - (layer.length * (HEIGHT + GAP_Y) - GAP_Y)) / 2;
    for (const [row, name] of layer.entries()) {
      place.set(name, { x: PAD + column * (WIDTH + GAP_X), y: top + row * (HEIGHT + GAP_Y) });
    }
  }
  const rowOf = new Map(
    timeline.filter((entry) => entry.type === "item").map((entry) => [entry.step, `item-${entry.number}`]),
  );
  return html`<${Section} title="Graph" aside=${plural(steps.length, "step")}>
    <div class="card graph" role="region" aria-label="The graph of the steps" tabindex="0">
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
        ${edges.map((names) => html`<path key=${names.join(">")} class="edge" d=${lineThrough(names.map((name) => place.get(name)))} />`)}
        ${steps.map((step) => html`<${Node} key=${step.name} step=${step} at=${place.get(step.name)} row=${rowOf.get(step.name)} />`)}
      </svg>
    </div>
  <//>`;
}

/** A line from the right of the first place through those between to the left of the last. */
function lineThrough(places) {
  const parts = [];
  for (const [number, to] of places.entries()) {
    const y = to.y + HEIGHT / 2;
    if (number === 0) parts.push(`M${to.x + WIDTH} ${y}`);
    else {
      const from = places[number - 1];
      const middle = from.x + WIDTH + GAP_X / 2;
      parts.push(`C${middle} ${from.y + HEIGHT / 2} ${middle} ${y} ${to.x} ${y}`);
      if (number < places.length - 1) parts.push(`H${to.x + WIDTH}`);
    }
  }
  return parts.join("");
}

/** The state of a step's items says more than that the step is under way. */
function stateOf(step) {
  const states = step.items.map((item) => item.state);
  return step.state === "running"
    ? (["failed", "running", "waiting"].find((one) => states.includes(one)) ?? step.state)
    : step.state;
}

function Node({ step, at, row }) {
  const done = step.items.filter((item) => item.state === "completed").length;
  const items = step.items.length > 1 ? ` · ${done} of ${step.items.length}` : "";
  const tries = Math.max(0, ...step.items.map((item) => item.attempts));
  const attempts = tries > 1 ? ` · ${tries} attempts` : "";
  const state = stateOf(step);
  const text = `${state}${items}${attempts}`;
  const inner = html`
    <title>${`${step.name}: ${text}${step.why ? `; ${cut(step.why)}` : ""}`}</title>
    <rect x=${at.x} y=${at.y} width=${WIDTH} height=${HEIGHT} rx="7" />
    <text x=${at.x + 12} y=${at.y + 21} class="node-name">${cut(step.name, 21)}</text>
    <text x=${at.x + 12} y=${at.y + 39} class="node-state">${cut(text, 26)}</text>
  `;
  const look = `node ${toneOf(state)}`;
  return row ? html`<a class=${look} href=${`#${row}`}>${inner}</a>` : html`<g class=${look}>${inner}</g>`;
}
