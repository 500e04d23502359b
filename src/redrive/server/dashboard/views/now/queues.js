// The queues in short: how full each is, and which are paused.

import { html } from "../../html.js";
import { withQuery } from "../../api.js";
import { Section } from "../../components/page.js";
import { Status } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { count } from "../../format.js";

const MOST = 8;

const COLUMNS = [
  {
    title: "Queue",
    wide: true,
    cell: (row) => html`<a data-row href=${withQuery("/flows", { queue: row.name })}><bdi>${row.name}</bdi></a>
      ${row.paused && html` <${Status} of="paused" />`}`,
  },
  { title: "Unfinished", number: true, cell: (row) => count(row.depth) },
  {
    title: "Running",
    number: true,
    cell: (row) =>
      html`${count(row.running)}${row.limit !== null && html`<span class="quiet"> of ${count(row.limit)}</span>`}`,
  },
];

export function Queues({ queues }) {
  const shown = [...queues].sort((one, other) => other.depth - one.depth).slice(0, MOST);
  if (!shown.length) return null;
  return html`<${Section} title="Queues" aside=${html`<a href="/queues">Queues and workers</a>`}>
    <${Table} caption="Queues" rows=${shown} id=${(row) => row.name} columns=${COLUMNS} />
  <//>`;
}
