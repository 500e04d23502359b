// Now.

import { html } from "../html.js";
import { PageHead } from "../components/page.js";

function View() {
  return html`<${PageHead} title="Now" />`;
}

export const route = { path: "/", title: "Now", nav: { key: "n" }, View };
