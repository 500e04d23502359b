// Every attempt and every wait as a table: the same as the waterfall, for reading and for those who hear the page.

import { html, useState } from "../../html.js";
import { Empty } from "../../components/notice.js";
import { Section } from "../../components/page.js";
import { Said } from "../../components/said.js";
import { Status, toneOf } from "../../components/status.js";
import { Table } from "../../components/table.js";
import { Countdown, Time } from "../../components/time.js";
import { count, duration, shortType } from "../../format.js";

const AT_ONCE = 50;

export function Attempts({ explanation }) {
  const [most, setMost] = useState(AT_ONCE);
  const rows = attemptRows(explanation);
  const elided = explanation.timeline.reduce((sum, entry) => sum + (entry.elided ?? 0), 0);
  const aside = `${count(rows.length)} shown, newest first${elided ? `; ${count(elided)} in the middle are left out` : ""}`;
  return html`<${Section} title="Every attempt" aside=${aside} id="attempts">
    <${Table}
      caption="Attempts with their outcome and what was decided"
      rows=${rows.slice(0, most)}
      id=${(row) => `${row.item.number}-${row.attempt.number}-${row.place}`}
      columns=${COLUMNS}
      empty=${html`<${Empty} title="No attempt has begun yet" />`}
    />
    ${rows.length > most && html`<p class="more"><button class="button small" onClick=${() => setMost(most + 200)}>Show more</button></p>`}
  <//>`;
}

function attemptRows({ timeline }) {
  const items = timeline.filter((entry) => entry.type === "item");
  const rows = items.flatMap((item) => {
    const shared = items.some((other) => other !== item && other.step === item.step);
    return (item.attempts ?? []).map((attempt, place) => ({
      item,
      attempt,
      place,
      shared,
      held: heldAfter(item, place),
    }));
  });
  return rows.sort((one, other) => other.attempt.began.after - one.attempt.began.after);
}

function heldAfter(item, place) {
  const { began } = item.attempts[place];
  const next = item.attempts[place + 1]?.began.after ?? Infinity;
  return (item.held_back ?? []).findLast((one) => one.when.after >= began.after && one.when.after < next);
}

const COLUMNS = [
  {
    title: "Step",
    cell: ({ item, attempt, shared }) =>
      html`<bdi>${item.step}</bdi> <span class="cell-note">attempt ${attempt.number}${shared && html`, item ${item.number}`}</span>`,
  },
  { title: "Outcome", cell: ({ attempt }) => html`<${Outcome} of=${attempt.outcome ?? "running"} />` },
  { title: "Began", cell: ({ attempt }) => html`<${Time} at=${attempt.began.at} />` },
  { title: "Took", number: true, cell: ({ attempt }) => duration(attempt.seconds) },
  {
    title: "Error",
    cell: ({ attempt }) =>
      attempt.error_type
        ? html`<bdi class="clamp error-text"><strong>${shortType(attempt.error_type)}</strong> ${attempt.message}</bdi>`
        : html`<bdi class="quiet">${attempt.reason ?? ""}</bdi>`,
  },
  {
    title: "What was decided",
    wide: true,
    cell: ({ attempt, held }) => html`
      ${attempt.decision && html`<${Said} text=${`${attempt.decision.answer}: ${attempt.decision.why}`} />`}
      ${attempt.decision?.next && html`<span class="cell-note">until <${Time} at=${attempt.decision.next.at} /> <${Upcoming} at=${attempt.decision.next.at} /></span>`}
      ${held && html`<span class="cell-note">then held back: <bdi>${held.why}</bdi></span>`}
    `,
  },
];

function Outcome({ of }) {
  return html`<${Status} of=${of} tone=${of === "running" ? "busy" : toneOf(of)} />`;
}

const Upcoming = ({ at }) => (Date.parse(at) > Date.now() ? html`(<${Countdown} to=${at} />)` : null);
