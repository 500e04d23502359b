// Flows: search and filters that are kept in the URL, what each flow waits for, and actions on many.

import { html, useEffect, useMemo, useSignal, useState } from "../html.js";
import { get, withQuery } from "../api.js";
import { useLive } from "../live.js";
import { batchPath, flowPath, query, urlWith } from "../router.js";
import { may } from "../session.js";
import { Definition } from "../components/definition.js";
import { Empty, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { Status } from "../components/status.js";
import { Pager, Table } from "../components/table.js";
import { Tags } from "../components/tags.js";
import { Ago, Countdown } from "../components/time.js";
import { definitionParts, plural, shortType, waitName } from "../format.js";
import { capital } from "../components/said.js";
import { BulkBar } from "./flows/bulk.js";
import { Filters } from "./flows/filters.js";
import { isFiltered, selectionOf } from "./flows/selection.js";

const LIMIT = 50;

function Flows() {
  const parameters = query.value;
  const selection = useMemo(() => selectionOf(parameters), [parameters]);
  const cursor = parameters.get("cursor");
  const live = useLive(withQuery("/v1/flows", { ...selection, cursor, limit: LIMIT }));
  const chosen = useSignal(new Set());
  useEffect(() => {
    chosen.value = new Set();
  }, [parameters]);
  const total = useTotal(selection, live.data);
  const flows = live.data?.flows ?? [];
  return html`
    <${PageHead} title="Flows" lead=${total && `${plural(total.count, "flow")}${total.more ? " or more" : ""} ${isFiltered(selection) ? "match" : "in all"}`} />
    <${Filters} selection=${selection} parameters=${parameters} />
    <${Waiting} live=${live} what="flows" />
    ${
      live.data &&
      html`<${Table}
          caption="Flows, the newest first"
          rows=${flows}
          id=${(flow) => flow.id}
          label=${(flow) => `${definitionParts(flow.definition).name} ${flow.key ?? flow.id}`}
          columns=${COLUMNS}
          chosen=${may("operate") ? chosen : undefined}
          empty=${html`<${NoFlows} filtered=${isFiltered(selection)} />`}
        />
        <${Pager} cursor=${live.data.next} isFirst=${!cursor} urlOf=${(next) => urlWith({ cursor: next })} />
        <${BulkBar} chosen=${chosen} selection=${selection} total=${total} flows=${flows} />`
    }
  `;
}

function NoFlows({ filtered }) {
  return filtered
    ? html`<${Empty} title="No flow matches"><p><a href="/flows">Show all flows</a></p><//>`
    : html`<${Empty} title="No flows yet"><p><a href="/">How to start a first one</a></p><//>`;
}

/** How many flows match, asked when the filters change and then with the list, every few seconds at most. */
function useTotal(selection, shown) {
  const [total, setTotal] = useState(null);
  const path = withQuery("/v1/flows/count", selection);
  const turn = shown ? Math.floor(Date.now() / 3000) : 0;
  useEffect(() => {
    if (!turn) return undefined;
    const abort = new AbortController();
    get(path, { signal: abort.signal }).then(setTotal, () => setTotal(null));
    return () => abort.abort();
  }, [path, turn]);
  return total;
}

const COLUMNS = [
  {
    title: "Flow",
    cell: (flow) => html`<a data-row href=${flowPath(flow.id)}><${Definition} of=${flow.definition} /></a>
      <span class="cell-note">${flow.key ? html`<bdi>${flow.key}</bdi>` : html`<code title=${flow.id}>${flow.id.slice(0, 13)}…</code>`}${flow.batch && html` in <a href=${batchPath(flow.batch)}><bdi>${flow.batch}</bdi></a>`}</span>
      <${Tags} tags=${flow.tags} />`,
  },
  { title: "Status", cell: (flow) => html`<${Status} of=${flow.status} />` },
  { title: "Waits for", wide: true, cell: (flow) => html`<${WaitsFor} flow=${flow} />` },
  {
    title: "Last error",
    cell: (flow) =>
      flow.waits?.error_type
        ? html`<code title=${flow.waits.error_type}>${shortType(flow.waits.error_type)}</code>`
        : "",
  },
  { title: "Queue", cell: (flow) => html`<bdi>${flow.queue}</bdi>` },
  { title: "Started", number: true, cell: (flow) => html`<${Ago} at=${flow.created_at} />` },
];

const FINISHED = ["completed", "failed", "cancelled"];

function WaitsFor({ flow }) {
  const { waits } = flow;
  if (FINISHED.includes(flow.status))
    return flow.finished_at && html`<span class="quiet">ended <${Ago} at=${flow.finished_at} /></span>`;
  if (!waits) return flow.wake_at && flow.status === "waiting" ? html`until <${Countdown} to=${flow.wake_at} />` : "";
  return html`<span class="wait-line">
      ${capital(waitName(waits.waits_for))}${waits.dependency && html` of <bdi>${waits.dependency}</bdi>`}
      ${waits.until && html` · <strong><${Countdown} to=${waits.until} /></strong>`}
    </span>
    <bdi class="cell-note clamp">${waits.reason}</bdi>`;
}

export const route = { path: "/flows", title: "Flows", nav: { key: "f" }, View: Flows };
