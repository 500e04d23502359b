// Now: what needs somebody, what is failing and why it waits, and what happens next by itself.

import { html, useEffect } from "../html.js";
import { useLive } from "../live.js";
import { announce } from "../components/announcements.js";
import { Waiting } from "../components/notice.js";
import { Figure, PageHead, Section } from "../components/page.js";
import { Sparkline } from "../components/sparkline.js";
import { Shape } from "../components/status.js";
import { Countdown, Time } from "../components/time.js";
import { withQuery } from "../api.js";
import { count, duration, plural, short } from "../format.js";
import { Coming } from "./now/coming.js";
import { FirstFlow } from "./now/first_flow.js";
import { headlineOf, heldOf, isEmpty, needsOf, outagesOf } from "./now/needs.js";
import { Problems } from "./now/problems.js";
import { Queues } from "./now/queues.js";

function Now() {
  const live = useLive("/v1/overview");
  const seen = live.data;
  const headline = seen && headlineOf(seen);
  useEffect(() => {
    if (!headline) return;
    document.title = `${headline} · redrive`;
    announce(headline);
  }, [headline]);
  if (!seen) return html`<${PageHead} title="Now" /><${Waiting} live=${live} what="what happens now" />`;
  if (isEmpty(seen)) return html`<${FirstFlow} workers=${seen.workers.alive} />`;
  const needs = needsOf(seen);
  const outages = outagesOf(seen);
  return html`
    <${PageHead} title=${headline} lead=${leadOf(seen, needs)} />
    ${
      needs.length + outages.length > 0 &&
      html`<ul class="needs" aria-label="What needs you, and what is failing">
        ${needs.map((need) => html`<${Need} key=${need.id} need=${need} />`)}
        ${outages.map((outage) => html`<${Outage} key=${outage.id} outage=${outage} />`)}
      </ul>`
    }
    <${Held} held=${heldOf(seen)} />
    <${Figures} seen=${seen} />
    <div class="now-columns">
      <div>
        <${Problems} seen=${seen} />
      </div>
      <div>
        <${Coming} coming=${seen.next} />
        <${Section} title="Attempts in the last hour">
          <div class="card"><${Hour} sparkline=${seen.sparkline} /></div>
        <//>
        <${Queues} queues=${seen.queues} />
      </div>
    </div>
  `;
}

function leadOf(seen, needs) {
  const { retrying } = seen;
  if (retrying) {
    const them =
      retrying === 1 ? "1 step is being retried; it goes" : `${count(retrying)} steps are being retried; they go`;
    return `${them} on without you.`;
  }
  return needs.length ? "Nothing else is failing." : "No step is failing, and no flow waits for anybody.";
}

/** A dependency that fails: since when, what waits for it, and when it is tried again. Nobody has to do anything. */
function Outage({ outage }) {
  const { name, phase, since, probe_at: probeAt, waiting, retrying } = outage;
  const href = withQuery("/flows", { dependency: name });
  const many = Math.max(waiting, retrying);
  return html`<li class="need outage">
    <${Shape} tone="wait" />
    <div>
      <a data-row href=${href}><bdi>${name}</bdi> ${phase === "recovering" ? "is recovering" : since ? html`has been failing since <${Time} at=${since} />` : "is failing"}</a>
      <p>
        ${many > 0 && `${plural(many, "step")} ${many === 1 ? "waits" : "wait"} for it and ${many === 1 ? "goes" : "go"} on by ${many === 1 ? "itself" : "themselves"}. `}
        ${phase === "recovering" ? (many > 0 ? "They begin one after the other, so that it is not overrun." : "Nothing waits for it now.") : html`It is tried again ${probeAt ? html`<${Countdown} to=${probeAt} due="now" />` : "when a step asks"}.`}
      </p>
    </div>
    <a class="button" href=${href} tabindex="-1" aria-hidden="true">See its flows</a>
  </li>`;
}

function Held({ held }) {
  if (!held.length) return null;
  return html`<p class="held-line">
    <${Shape} tone="held" />Paused on purpose:${" "}
    ${held.map((one, place) => html`<span><a href=${one.href}><bdi>${one.text}</bdi></a>${place < held.length - 1 && ";"}</span>`)}
  </p>`;
}

function Need({ need }) {
  return html`<li class="need ${need.tone}">
    <${Shape} tone=${need.tone} />
    <div>
      <a data-row href=${need.href}>${need.title}</a>
      <p>${need.text}</p>
    </div>
    <a class="button" href=${need.href} tabindex="-1" aria-hidden="true">${need.verb}</a>
  </li>`;
}

function Figures({ seen }) {
  const { counts, throughput, workers } = seen;
  const perMinute = (number) => short(Math.round(number * 10) / 10);
  return html`<div class="figures">
    <${Figure} name="running" value=${count(counts.running)} href="/flows?status=running" />
    <${Figure} name="waiting" value=${count(counts.waiting + counts.ready)} href="/flows?status=waiting&status=ready" />
    <${Figure} name="retried now" value=${count(seen.retrying)} tone=${seen.retrying ? "warn" : ""} href="/flows?retrying=true" />
    <${Figure} name="failed for good" value=${count(seen.dead)} tone=${seen.dead ? "bad" : ""} href="/dead" />
    <${Figure} name="completed a minute" value=${perMinute(throughput.completed)} />
    <${Figure} name="failed tries a minute" value=${perMinute(throughput.retried + throughput.gave_up)} />
    <${Figure} name="mean attempt" value=${duration(throughput.mean_seconds)} />
    <${Figure} name=${workers.alive === 1 ? "worker alive" : "workers alive"} value=${count(workers.alive)} tone=${workers.alive ? "" : "bad"} note=${workers.stale ? `${workers.stale} gone` : ""} href="/queues" />
  </div>`;
}

function Hour({ sparkline }) {
  return html`<${Sparkline}
    minutes=${sparkline.minutes}
    label="Attempts in the last hour"
    tall=${true}
    series=${[
      { name: "succeeded", tone: "good", values: sparkline.succeeded },
      { name: "failed, retried", tone: "warn", values: sparkline.retried },
      { name: "gave up", tone: "bad", values: sparkline.gave_up },
    ]}
  />`;
}

export const route = { path: "/", title: "Now", nav: { key: "n" }, View: Now };
