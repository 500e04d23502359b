// Dead letters: flows that failed for good, grouped by what failed and how.

import { html, signal, useEffect, useState } from "../html.js";
import { withQuery } from "../api.js";
import { Definition } from "../components/definition.js";
import { Filters } from "../components/filters.js";
import { Empty, Waiting } from "../components/notice.js";
import { PageHead } from "../components/page.js";
import { settleChosen, settleMatching, settleOne } from "../components/settling.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { Ago } from "../components/time.js";
import { count, cut, plural, shortType } from "../format.js";
import { useLive } from "../live.js";
import { flowPath, query, setQuery } from "../router.js";
import { may } from "../session.js";

const FILTERS = [
  { name: "definition", label: "Definition" },
  { name: "step", label: "Step" },
  { name: "error_type", label: "Error" },
  {
    name: "kind",
    label: "Kind",
    options: [
      "exhausted",
      "permanent",
      "unmatched",
      "unknown",
      "deadline",
      "poison",
      "retry_after",
      "not_idempotent",
      "workflow",
      "graph",
      "compensated",
    ],
  },
  { name: "dependency", label: "Dependency" },
  { name: "queue", label: "Queue" },
  { name: "state", label: "State", options: ["dead", "redriven", "discarded"], usual: "dead" },
];
const PAGE = 50;

// Why a flow failed for good, for readers that do not know the word.
const KINDS = {
  exhausted: "its attempts are used up",
  permanent: "retrying would not help",
  unknown: "the failure is of an unknown kind",
  unmatched: "the policy does not retry this failure",
  deadline: "the next attempt would have come too late",
  retry_after: "the server asked for too long a wait",
  not_idempotent: "it may have taken effect, and must not be repeated",
  poison: "retrying is harmful",
  workflow: "the flow's own code failed",
  graph: "a step of the graph could not be started",
  compensated: "completed steps were undone",
};

function View() {
  const filter = {};
  for (const { name } of FILTERS) {
    const value = query.value.get(name);
    if (value) filter[name] = value;
  }
  const state = filter.state ?? "dead";
  const live = useLive(withQuery("/v1/dead-letters/groups", filter));
  const groups = live.data?.groups ?? [];
  const total = groups.reduce((sum, one) => sum + one.count, 0);
  const selection = { ...filter };
  delete selection.state;
  const filtered = Object.keys(selection).length > 0;
  const offered = state === "dead" && total > 0 && may("operate");
  const what = filtered ? "all that match the filter" : "all dead letters";
  return html`
    <${PageHead}
      title="Dead letters"
      lead="Flows that failed for good, grouped by what failed and how. A redrive continues a flow at the step that failed; a discarded one stays failed."
    >
      ${
        offered &&
        html`<button class="button" onClick=${() => settleMatching("redrive", selection, what)}>Redrive ${filtered ? "what matches" : "all"} …</button>
          <button class="button danger" onClick=${() => settleMatching("discard", selection, what)}>Discard ${filtered ? "what matches" : "all"} …</button>`
      }
    <//>
    <${Filters} of=${FILTERS} label="Filter dead letters" />
    ${
      live.data === null
        ? html`<${Waiting} live=${live} what="dead letters" />`
        : html`<p class="summary" role="status">
              ${total ? `${plural(total, "letter")} in ${plural(groups.length, "group")}` : ""}
            </p>
            ${total ? html`<${Groups} groups=${groups} state=${state} />` : html`<${Nothing} filtered=${filtered} state=${state} />`}`
    }
  `;
}

function Nothing({ filtered, state }) {
  if (!filtered && state === "redriven") {
    return html`<${Empty} title="No redriven letter">
      <p>A flow that failed again after its redrive is <a href="/dead">dead again</a>.</p>
    <//>`;
  }
  if (filtered || state !== "dead") {
    return html`<${Empty} title="No dead letter matches"><p><a href="/dead">Show all dead letters</a></p><//>`;
  }
  return html`<${Empty} title="Nothing has failed for good" tone="good">
    <p>A flow whose policy gives up appears here, with the error of every attempt, until someone redrives or discards it.</p>
  <//>`;
}

const keyOf = (group) => [group.definition, group.step, group.error_type, group.kind].join("|");

function Groups({ groups, state }) {
  const opened = new Set(query.value.getAll("open"));
  const toggle = (key) => {
    if (!opened.delete(key)) opened.add(key);
    setQuery({ open: [...opened] }, { replace: true });
  };
  return html`<ul class="groups">
    ${groups.map((group) => {
      const key = keyOf(group);
      return html`<${Group} key=${key} group=${group} state=${state} open=${opened.has(key)} toggle=${() => toggle(key)} />`;
    })}
  </ul>`;
}

function Group({ group, state, open, toggle }) {
  const filter = { definition: group.definition, step: group.step, error_type: group.error_type, kind: group.kind };
  // The flow's own code has no step; the server takes no empty names.
  for (const name of Object.keys(filter)) if (!filter[name]) delete filter[name];
  const what = `${plural(group.count, "dead letter")} with ${shortType(group.error_type)} in ${group.step || "the flow's own code"}`;
  return html`<li class="group card ${open ? "open" : ""}">
    <div class="group-head">
      <button class="group-title" data-row aria-expanded=${open} onClick=${toggle}>
        <span class="group-count">${count(group.count)}</span>
        <span class="group-name">
          <strong><bdi title=${group.error_type}>${shortType(group.error_type)}</bdi></strong> in
          <strong> <bdi>${group.step || "the flow's own code"}</bdi></strong>
          <span class="quiet"> of <${Definition} of=${group.definition} /></span>
        </span>
      </button>
      ${
        state === "dead" &&
        may("operate") &&
        html`<div class="group-actions">
          <button class="button small main" onClick=${() => settleMatching("redrive", filter, what)}>Redrive ${count(group.count)} …</button>
          <button class="button small danger" onClick=${() => settleMatching("discard", filter, what)}>Discard …</button>
        </div>`
      }
    </div>
    <p class="group-example"><bdi>${cut(group.example?.message ?? "", 300)}</bdi></p>
    <p class="group-facts">
      <${Status} of="dead" word=${group.kind} />
      <span>${KINDS[group.kind] ?? "a guarded call gave up"}</span>
      <span>first <${Ago} at=${group.first_at} /></span>
      <span>last <${Ago} at=${group.last_at} /></span>
      ${group.example && html`<a href=${flowPath(group.example.flow_id)}>Explain an example</a>`}
    </p>
    ${open && html`<${Letters} filter=${filter} state=${state} />`}
  </li>`;
}

function Letters({ filter, state }) {
  const [chosen] = useState(() => signal(new Set()));
  const [cursors, setCursors] = useState([null]);
  const live = useLive(withQuery("/v1/dead-letters", { ...filter, state, cursor: cursors.at(-1), limit: PAGE }));
  const acts = state === "dead" && may("operate");
  const rows = live.data?.dead_letters ?? [];
  useEffect(() => {
    const here = new Set(rows.map((one) => one.flow_id));
    const kept = [...chosen.value].filter((id) => here.has(id));
    if (kept.length < chosen.value.size) chosen.value = new Set(kept);
  }, [live.data]);
  if (live.data === null) return html`<${Waiting} live=${live} what="the letters" />`;
  const ids = [...chosen.value];
  const forget = () => {
    chosen.value = new Set();
  };
  return html`<div class="letters">
    ${
      acts &&
      html`<p class="settle-chosen" role="group" aria-label="The chosen flows">
        <button class="button small" disabled=${!ids.length} onClick=${() => settleChosen("redrive", ids, forget)}>Redrive the ${count(ids.length)} chosen …</button>
        <button class="button small danger" disabled=${!ids.length} onClick=${() => settleChosen("discard", ids, forget)}>Discard them …</button>
      </p>`
    }
    <${Table}
      caption="Dead letters of this group, oldest first"
      rows=${rows}
      id=${(one) => one.flow_id}
      chosen=${acts ? chosen : undefined}
      columns=${columns(acts, state)}
    />
    <nav class="pager" aria-label="Pages of letters">
      ${cursors.length > 1 ? html`<button class="button small" onClick=${() => setCursors(cursors.slice(0, -1))}>Previous</button>` : html`<span></span>`}
      ${live.data.next && html`<button class="button small" onClick=${() => setCursors([...cursors, live.data.next])}>Next ${PAGE}</button>`}
    </nav>
  </div>`;
}

function columns(acts, state) {
  return [
    { title: "Flow", cell: (one) => html`<a class="mono" data-row href=${flowPath(one.flow_id)}>${one.flow_id}</a>` },
    {
      title: "Error",
      wide: true,
      cell: (one) =>
        html`<bdi>${cut(one.message, 160)}</bdi>${one.payload && html`<span class="cell-note mono"><bdi>${cut(one.payload, 120)}</bdi></span>`}`,
    },
    { title: "Attempts", number: true, cell: (one) => count(one.attempts) },
    { title: "Died", cell: (one) => html`<${Ago} at=${one.at} />` },
    state !== "dead" && {
      title: "Settled",
      cell: (one) =>
        html`<${Status} of=${one.state} /> by <bdi>${one.by || "someone"}</bdi><span class="cell-note"><bdi>${one.why}</bdi></span>`,
    },
    acts && {
      title: "Actions",
      hideTitle: true,
      cell: (one) => html`<span class="row-actions">
        <button class="button small" aria-label=${`Redrive ${one.flow_id}`} onClick=${() => settleOne("redrive", one)}>Redrive …</button>
        <button class="button small danger" aria-label=${`Discard ${one.flow_id}`} onClick=${() => settleOne("discard", one)}>Discard …</button>
      </span>`,
    },
  ].filter(Boolean);
}

export const route = { path: "/dead", title: "Dead letters", nav: { key: "d" }, View };
