// Statuses as a shape and a word, never as a colour alone.

import { html } from "../html.js";

// The shapes differ, so that they are told apart without colours.
const SHAPES = {
  good: "M3.5 8.5l3 3 6-7",
  bad: "M4.5 4.5l7 7m0-7l-7 7",
  warn: "M8 2.5L14 13H2zM8 6.5v3m0 1.6v.4",
  busy: "M5.5 3.5v9l7-4.5z",
  wait: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2 1.6",
  held: "M5.5 4v8M10.5 4v8",
  quiet: "M4 8h8",
};

const TONES = {
  ready: "wait",
  queued: "wait",
  waiting: "wait",
  retrying: "warn",
  running: "busy",
  accepted: "busy",
  paused: "held",
  parked: "warn",
  completed: "good",
  succeeded: "good",
  closed: "good",
  alive: "good",
  failed: "bad",
  dead: "bad",
  open: "bad",
  stale: "bad",
  lost: "bad",
  "timed out": "bad",
  half_open: "warn",
  recovering: "warn",
  "left behind": "warn",
  cancelled: "quiet",
  abandoned: "quiet",
  skipped: "quiet",
  returned: "quiet",
  discarded: "quiet",
  redriven: "busy",
};

const WORDS = { half_open: "half open" };

/** good, bad, warn, busy, wait, held or quiet. */
export const toneOf = (status) => TONES[status] ?? "quiet";

export function Shape({ tone }) {
  return html`<svg class="shape" viewBox="0 0 16 16" aria-hidden="true"><path d=${SHAPES[tone]} /></svg>`;
}

/** `<${Status} of="failed" />`; `word` and `tone` replace what the status says. */
export function Status({ of, word, tone = toneOf(of) }) {
  return html`<span class="status ${tone}"><${Shape} tone=${tone} />${word ?? WORDS[of] ?? of}</span>`;
}
