// The time of the server, ticking once a second. Countdowns read it; nothing else re-renders.

import { signal } from "./html.js";

let ahead = 0;

/** Epoch milliseconds of the server's clock, as a signal. */
export const now = signal(Date.now());

/** Learn how far the server's clock is ahead of this browser's, from a time that it just sent. */
export function heardFromServer(iso) {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return;
  ahead = Math.abs(at - Date.now()) > 2000 ? at - Date.now() : 0;
  tick();
}

function tick() {
  now.value = Date.now() + ahead;
}

setInterval(tick, 1000);
