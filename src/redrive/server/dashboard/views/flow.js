// A flow: where it stands, why, what happens next, what can be done; then everything that happened.

import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { useLive } from "../live.js";
import { now } from "../clock.js";
import { Definition } from "../components/definition.js";
import { Notice, Waiting } from "../components/notice.js";
import { PageHead, Section } from "../components/page.js";
import { capital, Said } from "../components/said.js";
import { schedulePath } from "../components/schedule.js";
import { Status } from "../components/status.js";
import { Tags } from "../components/tags.js";
import { Countdown, Time } from "../components/time.js";
import { batchPath, flowPath } from "../router.js";
import { may } from "../session.js";
import { definitionParts, duration, isRedacted, plural, pretty } from "../format.js";
import { FlowActions, sendSignal } from "./flow/actions.js";
import { Attempts } from "./flow/attempts.js";
import { Children } from "./flow/children.js";
import { StepGraph } from "./flow/graph.js";
import { Log } from "./flow/log.js";
import { Fact } from "./flow/segment_details.js";
import { Steps } from "./flow/steps.js";
import { Waterfall } from "./flow/waterfall.js";

function Flow({ id }) {
  const path = `/v1/flows/${encodeURIComponent(id)}`;
  const live = useLive(`${path}/explain?most=200`);
  const explanation = live.data;
  const version = explanation && explanation.events.length + explanation.timeline.length + explanation.status;
  const [details, setDetails] = useState(null);
  const [dead, setDead] = useState(null);
  useEffect(() => {
    if (!version) return;
    get(path).then(setDetails, () => setDetails(null));
  }, [path, version]);
  useEffect(() => {
    // With each answer: a discard changes the dead letter, and nothing in the log of the flow.
    if (explanation?.status === "failed")
      get(`/v1/dead-letters/${encodeURIComponent(id)}`).then(setDead, () => setDead(null));
    else setDead(null);
  }, [path, explanation]);
  useEffect(() => {
    if (explanation) document.title = `${definitionParts(explanation.definition).name} ${explanation.status} · redrive`;
  }, [explanation?.definition, explanation?.status]);
  if (!explanation) return html`<${PageHead} title="Flow" /><${Waiting} live=${live} what="the flow" />`;
  return html`
    <p class="crumbs"><a href="/flows">Flows</a> / <${Copied} text=${id} /></p>
    <${PageHead} title=${html`<${Definition} of=${explanation.definition} /> ${explanation.key && html`<bdi class="head-key">${explanation.key}</bdi>`}`}>
      <${FlowActions} explanation=${explanation} isDead=${dead?.state === "dead"} />
    <//>
    <${Standing} explanation=${explanation} dead=${dead} />
    <${Facts} explanation=${explanation} />
    <${Children} flow=${id} explanation=${explanation} />
    <${StepGraph} steps=${details?.steps ?? []} timeline=${explanation.timeline} />
    <${Waterfall} explanation=${explanation} />
    <${Steps} details=${details} explanation=${explanation} />
    <${Attempts} explanation=${explanation} />
    <${Happened} explanation=${explanation} />
    <${Values} explanation=${explanation} details=${details} />
    <${Log} flow=${id} version=${version} />
  `;
}

const TONES = { failed: "bad", parked: "warn", paused: "held", completed: "good" };

/** The one thing to know; then what it waits for, what happens if that never works, and what to do. */
function Standing({ explanation, dead }) {
  const waits = explanation.waits_for;
  const ends = explanation.timeline.filter((entry) => entry.schedule);
  return html`<section class="standing ${TONES[explanation.status] ?? ""}" aria-label="Where it stands">
    <p class="headline"><${Status} of=${explanation.status} /> <${Said} text=${capital(explanation.headline)} /></p>
    <div class="standing-parts">
      ${
        waits.length > 0 &&
        html`<div>
          <h2>It waits for</h2>
          <ul class="waits">
            ${waits.slice(0, 8).map(
              (wait) => html`<li>
                <bdi>${wait.what}</bdi>
                ${wait.until && html`${wait.signals ? "; it gives up " : " "}<strong><${Countdown} to=${wait.until.at} /></strong> <span class="quiet">(<${Time} at=${wait.until.at} />)</span>`}
                ${wait.why && html`<span class="cell-note"><bdi>${wait.why}</bdi></span>`}
                ${may("operate") && wait.signals?.map((name) => html` <button key=${name} class="button small" onClick=${() => sendSignal(explanation.flow_id, name)}>Send <bdi>${name}</bdi> …</button>`)}
              </li>`,
            )}
            ${waits.length > 8 && html`<li class="quiet">and ${plural(waits.length - 8, "more", "more")}</li>`}
          </ul>
        </div>`
      }
      ${
        ends.length > 0 &&
        html`<div>
          <h2>If it never works</h2>
          <ul class="waits">
            ${ends.slice(0, 4).map((one) => html`<li><${GivesUp} item=${one} /></li>`)}
          </ul>
        </div>`
      }
      ${
        explanation.next_steps.length > 0 &&
        html`<div>
          <h2>What you can do</h2>
          <ul class="waits">
            ${explanation.next_steps.map((advice) => html`<li><bdi>${capital(advice.text)}</bdi>${advice.command && html`<${Copied} text=${advice.command} />`}</li>`)}
          </ul>
        </div>`
      }
    </div>
    ${dead && dead.state !== "dead" && html`<${Notice}>This dead letter was ${dead.state} by <bdi>${dead.by}</bdi>: <bdi>${dead.why}</bdi><//>`}
  </section>`;
}

/** When a step would give up, by its policy, if every attempt fails. */
function GivesUp({ item }) {
  const { gives_up_at: moment, gives_up_after: attempts } = item.schedule;
  if (!moment && !attempts) return html`<bdi>${item.step}</bdi> never gives up: it is tried until it works`;
  const then = "the flow then fails, unless its code handles it, and can be redriven";
  const note = attempts ? `after attempt ${attempts}; ${then}` : then;
  return html`<bdi>${item.step}</bdi> gives up ${moment && html`<strong><${Countdown} to=${moment.at} /></strong> <span class="quiet">(<${Time} at=${moment.at} />)</span>`}
    <span class="cell-note">${note}</span>`;
}

/** Text with a button that copies it. */
function Copied({ text }) {
  const [done, setDone] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => setDone(true));
  return html`<span class="copied"><code>${text}</code> <button class="plain" onClick=${copy}>${done ? "Copied" : "Copy"}</button></span>`;
}

function Facts({ explanation }) {
  const began = explanation.began_at ?? explanation.created_at;
  const end = explanation.finished_at ? Date.parse(explanation.finished_at) : now.value;
  return html`<dl class="facts across">
    <${Fact} name="Started"><${Time} at=${explanation.created_at} /><//>
    <${Fact} name=${explanation.finished_at ? "Took" : "Has taken"}>${duration(Math.max(0, Math.round((end - Date.parse(began)) / (explanation.finished_at ? 1 : 1000)) / (explanation.finished_at ? 1000 : 1)))}<//>
    ${explanation.finished_at && html`<${Fact} name="Ended"><${Time} at=${explanation.finished_at} /><//>`}
    <${Fact} name="Queue"><bdi>${explanation.queue}</bdi><//>
    ${explanation.priority !== 0 && html`<${Fact} name="Priority">${explanation.priority}<//>`}
    ${explanation.batch && html`<${Fact} name="Batch"><a href=${batchPath(explanation.batch)}><bdi>${explanation.batch}</bdi></a><//>`}
    ${explanation.parent && html`<${Fact} name="Parent"><a class="mono" href=${flowPath(explanation.parent)}>${explanation.parent}</a><//>`}
    ${explanation.begun_by && html`<${Fact} name="Started by"><${Tick} tick=${explanation.begun_by} /><//>`}
    ${explanation.tags && html`<${Fact} name="Tags"><${Tags} tags=${explanation.tags} /><//>`}
    <${Fact} name="Input"><bdi class="clamp">${explanation.input || "none"}</bdi><//>
  </dl>`;
}

/** Which tick of which schedule began it. */
function Tick({ tick }) {
  return html`the schedule <a href=${schedulePath(tick.schedule)}><bdi>${tick.schedule}</bdi></a>${tick.by_hand ? ", by hand at" : ", for its tick of"} <${Time} at=${tick.tick} />`;
}

/** What operators did, and what else the log says besides attempts. */
function Happened({ explanation }) {
  const notes = explanation.timeline.filter((entry) => entry.type === "note");
  if (!notes.length) return null;
  return html`<${Section} title="What else happened">
    <ol class="card notes">
      ${notes.map(
        (note) => html`<li class=${note.rewound ? "rewound" : ""}>
          <${Time} at=${note.when.at} />
          <span><bdi>${capital(note.text)}</bdi>${note.by && html` by <bdi>${note.by}</bdi>`}${note.why && html`: <bdi>${note.why}</bdi>`}
            ${note.detail && html`<bdi class="cell-note">${note.detail}</bdi>`}</span>
        </li>`,
      )}
    </ol>
  <//>`;
}

function Values({ details }) {
  if (!details || (details.result === null && !details.error)) return null;
  return html`<${Section} title=${details.error ? "Error" : "Result"}>
    ${
      details.error
        ? html`<pre class="value" tabindex="0"><strong>${details.error.type}</strong> (${details.error.kind}): ${details.error.message}</pre>`
        : isRedacted(details.result)
          ? html`<${Notice}>The result has ${plural(details.result.bytes, "byte")}. Your key may not see payloads; one with the role read:payload may.<//>`
          : html`<pre class="value" tabindex="0">${pretty(details.result)}</pre>`
    }
  <//>`;
}

export const route = { path: "/flows/:id", title: "Flow", within: "/flows", View: Flow };
