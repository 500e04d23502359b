// The waterfall: a row for each work item, its attempts and waits on one time axis, up to the moment it would give up.

import { html, useEffect, useMemo, useState } from "../../html.js";
import { now } from "../../clock.js";
import { duration, minute, time } from "../../format.js";
import { Status } from "../../components/status.js";
import { Section } from "../../components/page.js";
import { makeAxis } from "./axis.js";
import { rowsOf, spanOf } from "./segments.js";
import { SegmentDetails, segmentTitle } from "./segment_details.js";

const ROWS_AT_ONCE = 40;
const WINDOWS = [
  [0, "everything"],
  [86_400, "the last day"],
  [3_600, "the last hour"],
  [600, "the last 10 minutes"],
  [60, "the last minute"],
];

export function Waterfall({ explanation }) {
  const [chosen, choose] = useState(null);
  const [most, setMost] = useState(ROWS_AT_ONCE);
  const [shown, show] = useState(0);
  const at = explanation.finished_at ? Date.parse(explanation.finished_at) : now.value;
  const rows = useMemo(() => rowsOf(explanation, at), [explanation, at]);
  const span = spanOf(explanation, rows, at);
  const from = shown ? Math.max(span.from, span.now - shown * 1000) : span.from;
  const axis = makeAxis({ ...span, from });
  const current = findSegment(rows, chosen) ?? defaultSegment(rows);
  const windows = WINDOWS.filter(([seconds]) => seconds * 1500 < span.now - span.from);
  const aside =
    windows.length > 1 &&
    html`<label class="inline-field">Show
      <select value=${shown} onChange=${(event) => show(Number(event.target.value))}>
        ${windows.map(([seconds, name]) => html`<option key=${seconds} value=${seconds}>${name}</option>`)}
      </select>
    </label>`;
  if (!rows.length) return null;
  return html`<${Section} title="Attempts and waits" aside=${aside}>
    <div class="card waterfall">
      <${Axis} axis=${axis} />
      <ol>
        ${rows.slice(0, most).map((row) => html`<${Row} key=${row.id} row=${row} axis=${axis} current=${current} choose=${choose} />`)}
      </ol>
      ${
        rows.length > most &&
        html`<button class="button small" onClick=${() => setMost(most + 200)}>Show more of ${rows.length} items</button>`
      }
      <${Legend} rows=${rows} />
      ${current && html`<${SegmentDetails} segment=${current} />`}
    </div>
  <//>`;
}

/** Segments are made anew with each snapshot: a chosen one is found again by its row and place. */
function findSegment(rows, chosen) {
  const row = chosen && rows.find((one) => one.id === chosen.row);
  return row?.segments[Math.min(chosen.place, row.segments.length - 1)] ?? null;
}

/** What to explain first: the wait that goes on now, else what runs, else the last failure. */
function defaultSegment(rows) {
  const waiting = rows.find((row) => row.state === "waiting")?.segments ?? [];
  const all = rows.flatMap((row) => row.segments);
  return (
    waiting.find((one) => one.ahead && one.since !== undefined) ??
    waiting.findLast((one) => !one.ahead) ??
    all.findLast((one) => one.kind === "attempt" && one.tone === "busy") ??
    all.findLast((one) => one.tone === "bad" && !one.ahead) ??
    all.at(-1)
  );
}

function Axis({ axis }) {
  const span = axis.now - axis.from;
  const text = span < 600_000 ? time : minute;
  return html`<div class="axis" aria-hidden="true">
    <div class="axis-track">
      ${axis.ticks.filter((at) => axis.place(at) < axis.share - 11).map((at) => html`<span key=${at} class="tick" style=${{ left: `${axis.place(at)}%` }}>${text(at)}</span>`)}
      ${axis.share < 100 && html`<span class="tick now" style=${{ left: `${axis.share}%` }}>now</span><span class="tick end">${time(axis.until)}</span>`}
    </div>
  </div>`;
}

function Row({ row, axis, current, choose }) {
  const [focus, setFocus] = useState(0);
  useEffect(() => setFocus(Math.max(0, row.segments.length - 1)), [row.segments.length]);
  const visible = row.segments
    .map((segment, place) => ({ segment, place }))
    .filter(({ segment }) => segment.to >= axis.from);
  const move = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const buttons = [...event.currentTarget.querySelectorAll("button")];
    buttons[Math.min(buttons.length - 1, Math.max(0, buttons.indexOf(event.target) + by))]?.focus();
  };
  const tab = visible.some(({ place }) => place === focus) ? focus : visible.at(-1)?.place;
  return html`<li class=${row.entry.rewound ? "rewound" : ""} id=${row.id}>
    <div class="row-name"><bdi>${row.name}</bdi> <${Status} of=${row.state} /></div>
    <div class="track" role="group" aria-label=${`${row.name}: use the arrow keys`} onKeyDown=${move}>
      ${axis.share < 100 && html`<span class="future-ground" style=${{ left: `${axis.share}%` }}></span>`}
      ${visible.map(({ segment, place }) => {
        const left = axis.place(Math.max(segment.from, axis.from));
        const width = axis.place(segment.to) - left;
        const isChosen = current === segment;
        const pick = () => {
          setFocus(place);
          choose({ row: row.id, place });
        };
        return html`<button
          key=${place}
          class="segment ${segment.kind} ${segment.tone} ${segment.ahead ? "ahead" : ""}"
          style=${{ left: `${left}%`, width: `${width}%` }}
          tabindex=${place === tab ? 0 : -1}
          aria-pressed=${isChosen}
          aria-label=${segmentTitle(segment)}
          title=${segmentTitle(segment)}
          onFocus=${pick}
          onMouseEnter=${pick}
          onClick=${pick}
        ></button>`;
      })}
    </div>
  </li>`;
}

const LEGEND = [
  ["attempt good", "succeeded", (one) => one.kind === "attempt" && one.tone === "good"],
  ["attempt bad", "failed", (one) => one.kind === "attempt" && one.tone === "bad"],
  ["attempt busy", "running", (one) => one.kind === "attempt" && one.tone === "busy"],
  ["wait warn", "backoff", (one) => one.kind === "wait" && one.tone === "warn"],
  ["wait busy", "asked to wait (Retry-After)", (one) => one.kind === "wait" && one.tone === "busy"],
  ["held held", "held back by its dependency", (one) => one.kind === "held"],
  ["timer held", "timer", (one) => one.kind === "timer"],
  ["future quiet ahead", "planned attempt", (one) => one.kind === "future"],
  ["giveUp bad ahead", "gives up", (one) => one.kind === "giveUp"],
];

function Legend({ rows }) {
  const all = rows.flatMap((row) => row.segments);
  const ahead = all.some((one) => one.ahead);
  return html`<p class="legend">
    ${LEGEND.filter(([, , fits]) => all.some(fits)).map(([look, name]) => html`<span key=${name}><i class="segment ${look}"></i>${name}</span>`)}
    ${ahead && html`<span>right of now: what is planned, not to scale</span>`}
  </p>`;
}

/** How long the whole took or takes, for the header. */
export const spanText = (explanation, at) =>
  duration((at - Date.parse(explanation.began_at ?? explanation.created_at)) / 1000);
