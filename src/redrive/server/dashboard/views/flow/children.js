// The children of a flow: how many there are in each state, with links to them.

import { html } from "../../html.js";
import { withQuery } from "../../api.js";
import { Counts, CountsBar } from "../../components/counts.js";
import { Section } from "../../components/page.js";
import { plural } from "../../format.js";
import { useLive } from "../../live.js";

const MOST = 200;

export function Children({ flow, explanation }) {
  const any = explanation.timeline.some((entry) => entry.what === "child_started");
  const live = useLive(any ? withQuery("/v1/flows", { parent: flow, limit: MOST }) : null);
  const children = live.data?.flows ?? [];
  if (!children.length) return null;
  const counts = {};
  for (const child of children) counts[child.status] = (counts[child.status] ?? 0) + 1;
  const all = html`<a href=${`/flows?${new URLSearchParams({ parent: flow })}`}>Show them all</a>`;
  const shown = live.data.next
    ? `The newest ${plural(children.length, "child", "children")}`
    : plural(children.length, "child", "children");
  return html`<${Section} title="Children" aside=${all}>
    <div class="card children">
      <p>${shown}</p>
      <${CountsBar} counts=${counts} />
      <${Counts} counts=${counts} filter=${{ parent: flow }} />
    </div>
  <//>`;
}
