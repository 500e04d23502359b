// A flow.

import { html } from "../html.js";
import { PageHead } from "../components/page.js";

function View({ id }) {
  return html`<${PageHead} title=${id} />`;
}

export const route = { path: "/flows/:id", title: "Flow", within: "/flows", View };
