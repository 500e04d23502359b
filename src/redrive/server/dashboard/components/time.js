// Times in the reader's zone with UTC in the title, and times that count down.

import { html } from "../html.js";
import { now } from "../clock.js";
import { coarse, epoch, fullTime, time } from "../format.js";

/** A moment: `<${Time} at=${iso} />`. */
export function Time({ at }) {
  if (at === null || at === undefined) return html`<span class="quiet">–</span>`;
  return html`<time datetime=${new Date(epoch(at)).toISOString()} title=${fullTime(at)}>${time(at)}</time>`;
}

/** How long ago a moment was: "4m 3s ago". */
export function Ago({ at, suffix = " ago" }) {
  if (at === null || at === undefined) return html`<span class="quiet">–</span>`;
  const seconds = Math.max(0, (now.value - epoch(at)) / 1000);
  const iso = new Date(epoch(at)).toISOString();
  return html`<time datetime=${iso} title=${fullTime(at)}>${coarse(seconds)}${suffix}</time>`;
}

/** How long until a moment: "in 12s"; "due" once it has passed. */
export function Countdown({ to, prefix = "in ", due = "due now" }) {
  if (to === null || to === undefined) return html`<span class="quiet">unknown</span>`;
  const seconds = (epoch(to) - now.value) / 1000;
  const text = seconds <= 0.5 ? due : prefix + coarse(seconds);
  return html`<time class="countdown" datetime=${new Date(epoch(to)).toISOString()} title=${fullTime(to)}>${text}</time>`;
}
