// Tags as links to the flows that have them.

import { html } from "../html.js";

/** tags: {name: text}. */
export function Tags({ tags }) {
  const names = Object.keys(tags ?? {});
  if (!names.length) return null;
  return html`<ul class="tags" aria-label="Tags">
    ${names.map((name) => {
      const tag = `${name}=${tags[name]}`;
      return html`<li key=${name}><a href=${`/flows?${new URLSearchParams({ tag })}`}><bdi>${tag}</bdi></a></li>`;
    })}
  </ul>`;
}
