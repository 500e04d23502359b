// Policies: paste one in any notation, and see its waits, what is wrong with it, and how others write it.

import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { post } from "../api.js";
import { announce } from "../components/announcements.js";
import { Empty, ErrorNotice } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { Plot, colour } from "../components/plot.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { count, duration, plural } from "../format.js";
import { query, setQuery } from "../router.js";

const PAUSE = 250;
// A longer text is not put into the URL: some proxies refuse long ones.
const LONGEST_IN_URL = 4000;
const NOTATIONS = ["native", "brackets", "work_config", "template", "stage", "temporal", "step_functions", "tenacity", "stamina", "litellm", "backoff", "celery", "python"];
const EXAMPLES = [
  ["Brackets", "[RateLimitError -> retry: 10, backoff: 1m] [retry: 3, backoff: 2s, jitter: full]"],
  ["tenacity", "@retry(stop=stop_after_attempt(5), wait=wait_exponential(multiplier=1, max=30))"],
  ["Temporal", '{"initialInterval": "1s", "backoffCoefficient": 2.0, "maximumInterval": "60s", "maximumAttempts": 8}'],
  ["Step Functions", '[{"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 2, "MaxAttempts": 5, "BackoffRate": 2.0}]'],
  ["Celery", "@app.task(autoretry_for=(ConnectionError,), retry_backoff=2, retry_backoff_max=600, max_retries=7)"],
  ["work_config", '{"max_retries": 5, "backoff": 1000, "backoff_type": "exponential"}'],
];

function View() {
  const shared = query.value.get("text") ?? decodeURIComponent(location.hash.slice(1));
  const [text, setText] = useState(shared);
  const [notation, setNotation] = useState(query.value.get("notation") ?? "");
  const [answer, setAnswer] = useState({ read: null, error: null, busy: false });
  const latest = useRef(0);
  useEffect(() => setText((known) => (query.value.has("text") ? query.value.get("text") : known)), [query.value]);
  useEffect(() => {
    const turn = ++latest.current;
    if (!text.trim()) {
      setAnswer({ read: null, error: null, busy: false });
      setQuery({ text: null, notation: null }, { replace: true });
      return undefined;
    }
    const timer = setTimeout(async () => {
      setQuery({ text: text.length <= LONGEST_IN_URL ? text : null, notation: notation || null }, { replace: true });
      setAnswer((known) => ({ ...known, busy: true }));
      try {
        const read = await post("/v1/policies", { text, ...(notation && { notation }) });
        if (turn === latest.current) setAnswer({ read, error: null, busy: false });
      } catch (error) {
        // What was read before stays, dimmed, while the text is being changed.
        if (turn === latest.current) setAnswer((known) => ({ read: known.read, error, busy: false }));
      }
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [text, notation]);
  return html`
    <${PageHead} title="Policies" lead="Paste a retry policy in any notation: see when its attempts would begin, what could go wrong, and how other libraries write it. Nothing is stored." />
    <form class="policy-form" onSubmit=${(event) => event.preventDefault()}>
      <label class="field">
        <span>Policy</span>
        <textarea
          data-search
          rows="6"
          spellcheck="false"
          value=${text}
          placeholder="[retry: 3, backoff: 2s, jitter: full]"
          aria-describedby="policy-said"
          onInput=${(event) => setText(event.target.value)}
        ></textarea>
      </label>
      <div class="policy-tools">
        <label class="filter">
          <span>Notation</span>
          <select value=${notation} onChange=${(event) => setNotation(event.target.value)}>
            <option value="">found by itself</option>
            ${NOTATIONS.map((one) => html`<option key=${one} value=${one}>${one.replaceAll("_", " ")}</option>`)}
          </select>
        </label>
        <div class="examples" role="group" aria-label="Examples">
          <span class="quiet">Examples:</span>
          ${EXAMPLES.map(
            ([name, example]) => html`<button key=${name} type="button" class="plain" onClick=${() => {
              setNotation("");
              setText(example);
            }}>${name}</button>`,
          )}
        </div>
      </div>
    </form>
    <div id="policy-said" role="status"><${ErrorNotice} error=${answer.error} /></div>
    ${answer.read ? html`<div class=${answer.error ? "stale" : ""} aria-busy=${answer.busy}><${Read} read=${answer.read} /></div>` : !text && html`<${Nothing} />`}
  `;
}

function Nothing() {
  return html`<${Empty} title="Nothing pasted yet">
    <p>redrive's own notations, and the settings of tenacity, stamina, backoff, Celery, Temporal, Step Functions and LiteLLM.</p>
  <//>`;
}

function Read({ read }) {
  return html`
    <div class="policy-summary card">
      <p><${Status} of="read" word=${read.notation.replaceAll("_", " ")} tone="good" /> <${Words} of=${read.policy} /></p>
      <p class="quiet">${total(read)}</p>
    </div>
    <${Section} title="When the attempts begin, if all fail" aside="the band lies between the shortest and the longest waits">
      <${Waits} waits=${read.waits} />
    <//>
    <${Section} title="Findings" aside=${read.findings.length ? plural(read.findings.length, "finding") : ""}>
      <${Findings} findings=${read.findings} />
    <//>
    <${Section} title="In other notations">
      <div class="conversions">${Object.entries(read.conversions).map(([name, text]) => html`<${Conversion} key=${name} name=${name} text=${text} />`)}</div>
    <//>
  `;
}

/** The policy in words: a sentence, or its settings. */
function Words({ of }) {
  if (typeof of === "string") return html`<bdi>${of}</bdi>`;
  return html`<span>${Object.entries(of)
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`)
    .join(", ")}</span>`;
}

function total(read) {
  const { earliest, latest } = read.total ?? {};
  const last = `The last of ${plural(read.waits.length, "attempt")}${read.more ? " shown" : ""} begins`;
  if (earliest === null || earliest === undefined) return "";
  return earliest === latest || latest === null || latest === undefined
    ? `${last} ${duration(earliest)} after the first.`
    : `${last} between ${duration(earliest)} and ${duration(latest)} after the first.`;
}

function Waits({ waits }) {
  const data = useMemo(() => {
    const latest = waits.map((one) => one.latest ?? one.earliest);
    return [waits.map((one) => one.attempt), waits.map((one) => one.earliest), latest, waits.map((one) => one.example ?? null)];
  }, [JSON.stringify(waits)]);
  const options = useMemo(plotOptions, []);
  const words = waits.map((one) => `attempt ${one.attempt} after ${duration(one.earliest)} to ${duration(one.latest ?? one.earliest)}`).join(", ");
  return html`<div class="waits">
    ${waits.length > 1 && html`<div class="card"><${Plot} data=${data} options=${options} label=${`When each attempt begins: ${words}`} height=${260} /></div>`}
    <${Table}
      caption="When each attempt begins, counted from the first"
      rows=${waits}
      id=${(one) => String(one.attempt)}
      columns=${[
        { title: "Attempt", cell: (one) => count(one.attempt) },
        { title: "Earliest", number: true, cell: (one) => after(one.earliest) },
        { title: "Latest", number: true, cell: (one) => after(one.latest) },
        { title: "For example", number: true, cell: (one) => after(one.example) },
      ]}
    />
  </div>`;
}

const after = (seconds) => (seconds === 0 ? "at once" : duration(seconds));

function plotOptions() {
  const [text, line, accent, soft] = ["quiet", "line", "accent", "accent-soft"].map(colour);
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    legend: { show: false },
    cursor: { y: false },
    scales: { x: { time: false, range: (_, low, high) => [low - 0.2, high + 0.2] }, y: { range: (_, __, high) => [0, high * 1.05 || 1] } },
    axes: [
      { ...axis, label: "attempt", labelSize: 18, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 500, 1000] },
      { ...axis, size: 64, values: (_, ticks) => ticks.map((one) => (one === 0 ? "0" : duration(one))) },
    ],
    series: [
      { label: "attempt" },
      { label: "earliest", stroke: accent, width: 1.5, points: { show: true, size: 5 } },
      { label: "latest", stroke: accent, width: 1.5, points: { show: true, size: 5 } },
      { label: "example", stroke: text, width: 1, dash: [4, 4], points: { show: false } },
    ],
    bands: [{ series: [2, 1], fill: soft }],
  };
}

const TONES = { error: "bad", warning: "warn", info: "quiet" };

function Findings({ findings }) {
  if (!findings.length) return html`<p><${Status} of="fine" word="nothing to improve" tone="good" /></p>`;
  return html`<ul class="findings">
    ${findings.map(
      (one, place) => html`<li key=${place} class="finding card">
        <p><${Status} of=${one.severity} tone=${TONES[one.severity] ?? "quiet"} /> <span class="mono quiet">${one.rule}</span> <span class="quiet"><bdi>${placeOf(one.where)}</bdi></span></p>
        <p><bdi>${one.message}</bdi></p>
        ${one.instead && html`<p class="instead"><strong>Instead:</strong> <bdi>${one.instead}</bdi></p>`}
      </li>`,
    )}
  </ul>`;
}

const placeOf = (where) => (where && typeof where === "object" ? [where.key, where.line && `line ${where.line}`].filter(Boolean).join(", ") : (where ?? ""));

function Conversion({ name, text }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    announce(`${name} was copied.`);
    setTimeout(() => setCopied(false), 2000);
  };
  const title = name.replaceAll("_", " ");
  return html`<figure class="conversion">
    <figcaption><h3>${title}</h3><button class="button small" aria-label=${`Copy ${title}`} onClick=${copy}>${copied ? "Copied" : "Copy"}</button></figcaption>
    <pre tabindex="0"><bdi>${text}</bdi></pre>
  </figure>`;
}

export const route = { path: "/policies", title: "Policies", nav: { key: "p" }, View };
