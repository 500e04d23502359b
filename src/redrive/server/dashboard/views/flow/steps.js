// The steps of a flow: their state, how often each was tried, its policy, and what can be done by hand.

import { html, useState } from "../../html.js";
import { Section } from "../../components/page.js";
import { Status } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { Countdown } from "../../components/time.js";
import { count, plural } from "../../format.js";
import { may } from "../../session.js";
import { StepActions } from "./actions.js";

const AT_ONCE = 30;
const DONE = ["completed", "skipped", "compensated", "cancelled", "abandoned"];

export function Steps({ details, explanation }) {
  const [most, setMost] = useState(AT_ONCE);
  if (!details) return null;
  const policies = new Map(
    explanation.timeline.filter((entry) => entry.type === "item").map((entry) => [entry.number, entry]),
  );
  const rows = details.steps.flatMap((step) => rowsOf(step, policies));
  const byHand = may("operate") && !["completed", "cancelled"].includes(details.status);
  // What needs a look stands first; the sort is stable otherwise.
  rows.sort((one, other) => Number(isDone(one)) - Number(isDone(other)));
  if (!rows.length) return null;
  return html`<${Section} title="Steps" aside=${`${count(sum(rows.filter(isDone)))} of ${count(sum(rows))} done`}>
    <${Table}
      caption="Steps with their state and their policy"
      rows=${rows.slice(0, most)}
      id=${({ step, item }) => `${step.name}-${item?.item ?? "none"}`}
      columns=${columns(details, byHand)}
    />
    ${rows.length > most && html`<p class="more"><button class="button small" onClick=${() => setMost(most + 200)}>Show more</button></p>`}
  <//>`;
}

/** A row for each item, but one for all that are done. */
function rowsOf(step, policies) {
  const rows = step.items.map((item) => ({ step, item, entry: policies.get(item.item), items: 1 }));
  const done = rows.filter(isDone);
  if (!rows.length) return [{ step, item: null, items: 1 }];
  if (done.length < 2) return rows;
  return [...rows.filter((row) => !isDone(row)), { ...done[0], items: done.length }];
}

const sum = (rows) => rows.reduce((total, row) => total + row.items, 0);
const stateOf = ({ step, item }) => item?.state ?? step.state;
const isDone = (row) => DONE.includes(stateOf(row));

function columns(details, byHand) {
  return [
    {
      title: "Step",
      cell: ({
        step,
        item,
        items,
      }) => html`<bdi>${step.name}</bdi>${step.items.length > 1 && html` <span class="quiet">${items > 1 ? plural(items, "item") : `item ${item.index + 1} of ${step.items.length}`}</span>`}
        ${item?.compensates && html`<span class="cell-note">compensates <bdi>${item.compensates}</bdi></span>`}`,
    },
    { title: "State", cell: (row) => html`<${Status} of=${stateOf(row)} />` },
    {
      title: "Attempts",
      number: true,
      cell: ({ item, items }) =>
        item && items === 1
          ? html`${count(item.attempts)}<span class="quiet"> of ${item.max_attempts ?? "∞"}</span>`
          : "",
    },
    {
      title: "What is next",
      wide: true,
      cell: ({ step, item, entry }) => html`
        ${item ? (heldBack(entry) ?? item.reason) : (step.why ?? "")}
        ${item?.next_retry_at && html`: <${Countdown} to=${item.next_retry_at} />`}
        ${item?.error && html`<bdi class="cell-note clamp">${item.error}</bdi>`}
        ${byHand && item && !isDone({ step, item }) && html`<${StepActions} flow=${details.id} step=${step.name} index=${step.items.length > 1 ? item.index : null} />`}
      `,
    },
    {
      title: "Policy",
      cell: ({ entry }) => (entry ? html`<${Policy} entry=${entry} />` : ""),
    },
  ];
}

/** What holds back the attempt that comes next, if anything does. */
function heldBack(entry) {
  const held = entry?.held_back?.at(-1);
  const began = entry?.attempts?.at(-1)?.began.after ?? -Infinity;
  return entry?.state === "waiting" && held && held.when.after >= began ? held.why : null;
}

/** The policy in force, in redrive's own notation, folded up to what is asked first. */
function Policy({ entry }) {
  const { policy } = entry;
  const attempts = typeof policy.attempts === "number" ? plural(policy.attempts, "attempt") : "no limit of attempts";
  return html`<details class="policy">
    <summary>${attempts}, ${policy.backoff ?? "no backoff"}</summary>
    <dl class="facts">
      ${Object.entries(policy).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${asText(value)}</dd></div>`)}
      ${entry.policy_from && html`<div><dt>set by</dt><dd>the ${entry.policy_from}</dd></div>`}
    </dl>
  </details>`;
}

const asText = (value) => (typeof value === "string" ? value : JSON.stringify(value));
