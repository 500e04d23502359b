// What a view shows before, instead of and besides its data: loading, errors, emptiness, hints.

import { html } from "../html.js";
import { Shape } from "./status.js";

export function Loading({ what = "" }) {
  return html`<p class="loading" role="status"><span class="spinner" aria-hidden="true"></span>Loading ${what} …</p>`;
}

/** One line that says what is wrong, and what helps. */
export function ErrorNotice({ error, title = "" }) {
  if (!error) return null;
  return html`<div class="notice bad" role="alert">
    <${Shape} tone="bad" />
    <p>${title && html`<strong>${title} </strong>`}${error.message}</p>
  </div>`;
}

/** tone: good, warn, bad or quiet. */
export function Notice({ tone = "quiet", children }) {
  return html`<div class="notice ${tone}"><${Shape} tone=${tone} /><div>${children}</div></div>`;
}

/** In place of a list without rows: what that means, and what to do. */
export function Empty({ title, tone = "quiet", children }) {
  return html`<div class="empty">
    <span class="empty-shape ${tone}"><${Shape} tone=${tone} /></span>
    <p class="empty-title">${title}</p>
    ${children && html`<div class="empty-text">${children}</div>`}
  </div>`;
}

/** What a view shows of a live resource until it has data: nothing once it has. */
export function Waiting({ live, what }) {
  if (live.error) return html`<${ErrorNotice} error=${live.error} />`;
  return live.data === null ? html`<${Loading} what=${what} />` : null;
}
