// Policies: paste one in any notation, and see its waits, what is wrong with it, and how others write it.

import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { post } from "../api.js";
import { announce } from "../components/announcements.js";
import { Empty, ErrorNotice } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { Plot, colour } from "../components/plot.js";
import { Status } from "../components/status.js";
import { Table } from "../components/table.js";
import { count, cut, duration, plural } from "../format.js";
import { query, setQuery } from "../router.js";

const PAUSE = 250;
// A longer text is not put into the URL: some proxies refuse long ones.
const LONGEST_IN_URL = 4000;
// Seconds between two lines of the plot.
const ROUND_TIMES = [
  0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
  2592000, 31536000,
];
const NOTATIONS = [
  "native",
  "brackets",
  "work_config",
  "template",
  "stage",
  "temporal",
  "step_functions",
  "tenacity",
  "stamina",
  "litellm",
  "backoff",
  "celery",
  "python",
];
const EXAMPLES = [
  ["Brackets", "[RateLimitError -> retry: 10, backoff: 1m] [retry: 3, backoff: 2s, jitter: full]"],
  ["tenacity", "@retry(stop=stop_after_attempt(5), wait=wait_exponential(multiplier=1, max=30))"],
  ["Temporal", '{"initialInterval": "1s", "backoffCoefficient": 2.0, "maximumInterval": "60s", "maximumAttempts": 8}'],
  [
    "Step Functions",
    '[{"ErrorEquals": ["States.TaskFailed"], "IntervalSeconds": 2, "MaxAttempts": 5, "BackoffRate": 2.0}]',
  ],
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
          rows="3"
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
            ([name, example]) =>
              html`<button key=${name} type="button" class="plain" onClick=${() => {
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
  const cases = read.cases ?? [];
  const [chosen, setChosen] = useState("");
  const shown = cases.find((one) => one.failure === chosen) ?? read;
  const findings = [...read.findings, ...(read.warnings ?? []).map(asFinding)];
  return html`
    <div class="policy-summary card">
      <p><${Status} of="read" word=${read.notation.replaceAll("_", " ")} tone="good" /> <bdi>${read.policy}</bdi></p>
    </div>
    <${Section} title="When the attempts begin, if all fail" aside=${cases.length > 1 && html`<${Failures} cases=${cases} value=${shown.failure} choose=${setChosen} />`}>
      <p class="waits-says"><${Says} one=${shown} /></p>
      ${shown.waits.length > 1 ? html`<${Waits} waits=${shown.waits} />` : html`<p class="quiet">There is one attempt, so there are no waits.</p>`}
    <//>
    <${Section} title="Findings" aside=${findings.length ? plural(findings.length, "finding") : ""}>
      <${Findings} findings=${findings} />
    <//>
    <${Section} title="In other notations" aside="what a notation cannot say is noted under it">
      <div class="conversions">
        ${Object.entries(read.conversions).map(([name, text]) => html`<${Conversion} key=${name} name=${name} text=${text} lost=${read.lost?.[name] ?? []} />`)}
      </div>
    <//>
  `;
}

/** What redrive understands otherwise than the notation means it is worth as much as a finding. */
const asFinding = (warning) => ({
  rule: warning.id,
  severity: "warning",
  message: warning.message,
  where: warning.key,
  instead: "",
});

function Failures({ cases, value, choose }) {
  return html`<label class="failures">for
    <select value=${value} aria-label="Failure" onChange=${(event) => choose(event.target.value)}>
      ${cases.map((one) => html`<option key=${one.failure} value=${one.failure}>${cut(one.failure, 60)}</option>`)}
    </select>
  </label>`;
}

/** How many attempts there are, and when it ends. */
function Says({ one }) {
  const attempts = one.attempts === null ? "Attempts without end" : `${plural(one.attempts, "attempt")}`;
  const shown = one.more ? `; the first ${count(one.waits.length)} are shown` : "";
  const { earliest, latest } = one.total ?? {};
  const ends =
    earliest === null || earliest === undefined
      ? ""
      : latest === null || latest === earliest
        ? ` It gives up ${duration(earliest)} after the first${latest === null ? " or later, as long as the attempts take" : ""}.`
        : ` It gives up between ${duration(earliest)} and ${duration(latest)} after the first.`;
  return html`${attempts}${shown}.${ends} <span class="quiet">Why it ends: <bdi>${one.because}</bdi></span>`;
}

function Waits({ waits }) {
  const data = useMemo(() => {
    const latest = waits.map((one) => one.latest ?? one.earliest);
    return [
      waits.map((one) => one.attempt),
      waits.map((one) => one.earliest),
      latest,
      waits.map((one) => one.example ?? null),
    ];
  }, [JSON.stringify(waits)]);
  const options = useMemo(plotOptions, []);
  const words = waits
    .map((one) => `attempt ${one.attempt} after ${duration(one.earliest)} to ${duration(one.latest ?? one.earliest)}`)
    .join(", ");
  return html`<div class="policy-waits">
    <figure class="card">
      <${Plot} data=${data} options=${options} label=${`When each attempt begins: ${words}`} height=${260} />
      <figcaption class="quiet">The band lies between the shortest and the longest waits; the dashed line is one run, with its waits drawn at random.</figcaption>
    </figure>
    <${Table}
      caption="When each attempt begins, counted from the first"
      rows=${waits}
      id=${(one) => String(one.attempt)}
      columns=${waitColumns(waits)}
    />
  </div>`;
}

function waitColumns(waits) {
  const begins = (title, name) => ({ title, number: true, cell: (one) => after(one[name]) });
  const isSpread = waits.some((one) => one.latest !== one.earliest);
  return [
    { title: "Attempt", cell: (one) => count(one.attempt) },
    ...(isSpread
      ? [begins("Earliest", "earliest"), begins("Latest", "latest"), begins("For example", "example")]
      : [begins("Begins", "earliest")]),
    waits.some((one) => one.timeout) && { title: "May take", number: true, cell: (one) => duration(one.timeout) },
  ].filter(Boolean);
}

/** "at once", a duration, or a dash for an attempt that is not made. */
const after = (seconds) => (seconds === 0 ? "at once" : duration(seconds));

function plotOptions() {
  const [text, line, accent, soft] = ["quiet", "line", "accent", "accent-soft"].map(colour);
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    legend: { show: false },
    cursor: { y: false },
    scales: {
      x: { time: false, range: (_, low, high) => [low - 0.2, high + 0.2] },
      y: { range: (_, __, high) => [0, high * 1.05 || 1] },
    },
    axes: [
      { ...axis, label: "attempt", labelSize: 18, size: 34, incrs: [1, 2, 5, 10, 20, 50, 100, 500, 1000] },
      {
        ...axis,
        size: 78,
        incrs: ROUND_TIMES,
        values: (_, ticks) => ticks.map((one) => (one === 0 ? "0" : duration(one))),
      },
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
        <p><${Status} of=${one.severity} tone=${TONES[one.severity] ?? "quiet"} /> <span class="mono quiet">${one.rule}</span> <span class="quiet">${one.where && "in "}<bdi>${one.where}</bdi></span></p>
        <p><bdi>${one.message}</bdi></p>
        ${one.instead && html`<p class="instead"><strong>Instead:</strong> <bdi>${one.instead}</bdi></p>`}
      </li>`,
    )}
  </ul>`;
}

function Conversion({ name, text, lost }) {
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
    ${lost.length > 0 && html`<ul class="lost">${lost.map((one) => html`<li key=${one.id + one.key}><${Status} of="lost" word="lost" tone="warn" /> <bdi>${one.message}</bdi></li>`)}</ul>`}
  </figure>`;
}

export const route = { path: "/policies", title: "Policies", nav: { key: "p" }, View };
