// Flows.

import { html } from "../html.js";
import { PageHead } from "../components/page.js";

function View() {
  return html`<${PageHead} title="Flows" />`;
}

export const route = { path: "/flows", title: "Flows", nav: { key: "f" }, View };
