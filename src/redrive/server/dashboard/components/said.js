// Sentences of the server, with the times in them in the reader's zone and still counting down.

import { html } from "../html.js";
import { Countdown, Time } from "./time.js";

const TIMES = /(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC(, in [\d.dhms]+)?/g;

/** Text as it is, but "at 2026-11-18 20:24:57 UTC, in 15s" with a local time and a countdown. */
export function Said({ text }) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(TIMES)) {
    const iso = `${found[1].replace(" ", "T")}Z`;
    parts.push(text.slice(last, found.index), html`<${Time} at=${iso} />`);
    if (found[2]) parts.push(", ", html`<${Countdown} to=${iso} />`);
    last = found.index + found[0].length;
  }
  parts.push(text.slice(last));
  return html`<bdi>${parts}</bdi>`;
}

/** The first letter of a sentence as a capital. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
