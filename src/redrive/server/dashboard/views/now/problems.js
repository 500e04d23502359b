// What is failing: by dependency, by what it waits for, and by definition. Each row leads to the flows behind it.

import { html } from "../../html.js";
import { Definition } from "../../components/definition.js";
import { Empty } from "../../components/notice.js";
import { Section } from "../../components/page.js";
import { Status } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { Countdown } from "../../components/time.js";
import { withQuery } from "../../api.js";
import { capital } from "../../components/said.js";
import { count, shortType, waitName } from "../../format.js";

const MOST = 8;

export function Problems({ seen }) {
  const { by_dependency: dependencies, by_definition: definitions, by_reason: reasons } = seen.problems;
  if (!dependencies.length && !definitions.length && !reasons.length) {
    return html`<${Section} title="What is failing"><${Empty} title="Nothing is failing" tone="good" /><//>`;
  }
  return html`
    ${
      dependencies.length > 0 &&
      html`<${Section} title="By dependency" aside=${html`<a href="/dependencies">All dependencies</a>`}>
        <${Table} caption="Dependencies in trouble" rows=${dependencies.slice(0, MOST)} id=${(row) => row.name} columns=${DEPENDENCY} />
      <//>`
    }
    ${
      reasons.length > 0 &&
      html`<${Section} title="By what they wait for">
        <${Table} caption="Waits by reason" rows=${reasons.slice(0, MOST)} id=${(row) => `${row.waits_for} ${row.error_type}`} columns=${reasonColumns(seen.waits)} />
      <//>`
    }
    ${
      definitions.length > 0 &&
      html`<${Section} title="By definition" aside=${html`<a href="/definitions">All definitions</a>`}>
        <${Table} caption="Definitions in trouble" rows=${definitions.slice(0, MOST)} id=${(row) => row.definition} columns=${DEFINITION} />
      <//>`
    }
  `;
}

const number = (value, tone = "") => html`<span class=${value ? tone : "quiet"}>${count(value)}</span>`;

const DEPENDENCY = [
  {
    title: "Dependency",
    cell: (row) => html`<a data-row href=${withQuery("/flows", { dependency: row.name })}><bdi>${row.name}</bdi></a>`,
  },
  {
    title: "Circuit",
    wide: true,
    cell: (row) =>
      row.phase
        ? html`<${Status} of=${row.phase} word=${row.held ? "held open" : undefined} />${row.probe_at && html`<span class="cell-note">tried again <${Countdown} to=${row.probe_at} /></span>`}`
        : html`<span class="quiet">unknown</span>`,
  },
  { title: "Held back", number: true, cell: (row) => number(row.waiting) },
  { title: "Retrying", number: true, cell: (row) => number(row.retrying) },
  { title: "Dead", number: true, cell: (row) => number(row.dead, "strong-bad") },
];

function reasonColumns(waits) {
  return [
    {
      title: "Waits for",
      wide: true,
      cell: (
        row,
      ) => html`<a data-row href=${withQuery("/flows", { waits_for: row.waits_for, error: row.error_type, retrying: row.waits_for ? "" : "true" })}>
        ${row.waits_for ? capital(waitName(row.waits_for)) : "Is being tried right now"}
      </a>`,
    },
    {
      title: "After",
      cell: (row) =>
        row.error_type
          ? html`<code title=${row.error_type}>${shortType(row.error_type)}</code>`
          : html`<span class="quiet">no failure</span>`,
    },
    {
      title: "The first goes on",
      cell: (row) => {
        const wait = waits.find((one) => one.waits_for === row.waits_for);
        return wait ? html`<${Countdown} to=${wait.next_at} />` : html`<span class="quiet">–</span>`;
      },
    },
    { title: "Steps", number: true, cell: (row) => number(row.count) },
  ];
}

const DEFINITION = [
  {
    title: "Definition",
    wide: true,
    cell: (row) =>
      html`<a data-row href=${withQuery("/flows", { definition: row.definition })}><${Definition} of=${row.definition} /></a>`,
  },
  { title: "Retrying", number: true, cell: (row) => number(row.retrying) },
  { title: "Dead", number: true, cell: (row) => number(row.dead, "strong-bad") },
];
