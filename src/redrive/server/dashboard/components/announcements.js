// What is said to readers who do not see the page: polite, and at most once in two seconds.

import { html, signal } from "../html.js";

const said = signal("");
let next = null;
let timer = 0;

/** Have a sentence read out. Of several within two seconds, the last one is. */
export function announce(text) {
  next = text;
  if (timer) return;
  said.value = text;
  next = null;
  timer = setTimeout(() => {
    timer = 0;
    if (next !== null) announce(next);
  }, 2000);
}

/** Drawn once, by the shell. */
export function Announcements() {
  return html`<p class="unseen" role="status" aria-live="polite">${said.value}</p>`;
}
