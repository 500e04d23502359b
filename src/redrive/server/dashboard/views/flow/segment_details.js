// What one segment of the waterfall means, with every reason that went into it.

import { html } from "../../html.js";
import { capital, Said } from "../../components/said.js";
import { Countdown, Time } from "../../components/time.js";
import { count, duration, plural, shortType, time } from "../../format.js";

const ordinal = ({ attempt, item }) => {
  const of = item.attempts.findLast((one) => one.decision?.because?.attempts)?.decision.because.attempts;
  return `attempt ${attempt.number}${of ? ` of ${of}` : ""}`;
};

/** One line, for a title and for those who hear the page. */
export function segmentTitle(segment) {
  const length = duration((segment.to - segment.from) / 1000);
  switch (segment.kind) {
    case "attempt":
      return `${ordinal(segment)}: ${segment.outcome} after ${length}${segment.attempt.error_type ? `, ${shortType(segment.attempt.error_type)}` : ""}`;
    case "held":
      return `held back for ${wholeLength(segment)}: ${segment.held.why || "its dependency"}`;
    case "elided":
      return `${plural(segment.missing, "attempt")} not shown, within ${length}`;
    case "queued":
      return `waited ${length} for its first attempt`;
    case "timer":
      return `timer, ${wholeLength(segment)}`;
    case "future":
      return `attempt ${segment.planned.number} would begin at ${time(segment.from)}`;
    case "giveUp":
      return `it would give up at ${time(segment.from)}`;
    default:
      return segment.attempt ? `waited ${wholeLength(segment)} after ${ordinal(segment)}` : `would wait ${length}`;
  }
}

const wholeLength = (segment) => duration(((segment.goesOn ?? segment.to) - (segment.since ?? segment.from)) / 1000);

export function SegmentDetails({ segment }) {
  const Details = DETAILS[segment.kind];
  return html`<div class="segment-details" aria-live="off"><${Details} segment=${segment} /></div>`;
}

const DETAILS = {
  attempt: Attempt,
  wait: Wait,
  held: Held,
  queued: ({ segment }) => html`<${Title} segment=${segment} text="Waited for its first attempt" />`,
  elided: Elided,
  timer: Timer,
  future: Planned,
  giveUp: GiveUp,
};

function Title({ segment, text }) {
  const name = segment.item?.step ?? "timer";
  return html`<h3><bdi>${name}</bdi>: ${text}</h3>`;
}

function Attempt({ segment }) {
  const { attempt } = segment;
  return html`<${Title} segment=${segment} text=${`${ordinal(segment)} ${segment.outcome}`} />
    <dl class="facts">
      <${Fact} name="Began"><${Time} at=${attempt.began.at} /><//>
      <${Fact} name="Took">${duration(attempt.seconds ?? (segment.to - segment.from) / 1000)}<//>
      ${attempt.error_type && html`<${Fact} name="Error"><bdi><code>${attempt.error_type}</code> ${attempt.message}</bdi><//>`}
      ${attempt.status && html`<${Fact} name="HTTP status">${attempt.status}<//>`}
      ${attempt.category && html`<${Fact} name="Taken as">${attempt.category}: <bdi>${attempt.reason}</bdi><//>`}
      ${!attempt.category && attempt.reason && html`<${Fact} name="Because"><bdi>${attempt.reason}</bdi><//>`}
      ${attempt.decision && html`<${Fact} name="Decided">${decided(attempt.decision)}<//>`}
      ${!attempt.ended && attempt.timeout && html`<${Fact} name="Times out"><${Countdown} to=${attempt.timeout.at} /><//>`}
    </dl>`;
}

const decided = (decision) =>
  html`${decision.answer === "retry" ? "retry" : `give up (${decision.kind})`}: <${Said} text=${decision.why} />`;

function Wait({ segment }) {
  const { attempt, planned } = segment;
  if (!attempt) {
    const text = segment.lastWait
      ? "the last wait before it would give up"
      : `backoff before attempt ${planned.number}`;
    return html`<${Title} segment=${segment} text=${text} />
      <p>Planned: it happens only if every attempt before it fails.</p>`;
  }
  const because = attempt.decision?.because;
  const until = attempt.decision?.next ?? attempt.next;
  return html`<${Title} segment=${segment} text=${`${because?.retry_after ? "wait that the other side asked for" : attempt.outcome === "returned" ? "returned, to be made again" : "backoff"} after ${ordinal(segment)}`} />
    <dl class="facts">
      <${Fact} name="Until"><${Time} at=${until.at} />${segment.to > Date.now() && html` (<${Countdown} to=${until.at} />)`}<//>
      ${attempt.decision && html`<${Fact} name="Why"><${Said} text=${attempt.decision.why} /><//>`}
      ${attempt.reason && html`<${Fact} name="The failure"><bdi>${attempt.reason}</bdi><//>`}
      ${because && html`<${Reasons} because=${because} />`}
    </dl>`;
}

/** Everything that went into the decision, one fact each. */
function Reasons({ because }) {
  const range = because.high > because.low;
  return html`
    <${Fact} name="Rule"><code>${because.rule}</code>${because.matched && html` matches <bdi>${because.matched}</bdi>`}<//>
    ${because.raw > 0 && html`<${Fact} name="Backoff">${duration(because.raw)}${because.cap ? `, at most ${duration(because.cap)}` : ""}<//>`}
    ${range && html`<${Fact} name="Jitter">${because.jitter ?? "none"}: drew ${duration(because.wait ?? 0)} from ${duration(because.low)} to ${duration(because.high)}<//>`}
    ${because.retry_after !== undefined && html`<${Fact} name="Retry-After">${duration(because.retry_after)} ${because.retry_after_note}<//>`}
    ${because.circuit && html`<${Fact} name="Circuit">${because.circuit}<//>`}
    ${because.budget_left !== undefined && html`<${Fact} name="Retry budget">${count(Math.floor(because.budget_left))} left<//>`}
    ${because.deadline_left !== undefined && html`<${Fact} name="Deadline">${duration(because.deadline_left)} left<//>`}
  `;
}

function Held({ segment }) {
  return html`<${Title} segment=${segment} text="held back, no attempt was spent" />
    <dl class="facts">
      <${Fact} name="Why"><bdi>${capital(segment.held.why || "its dependency does not admit it")}</bdi><//>
      <${Fact} name="Since"><${Time} at=${segment.held.when.at} /><//>
      ${
        Date.parse(segment.held.until.at) > Date.now() &&
        html`<${Fact} name="Asks again">
          <${Time} at=${segment.held.until.at} /> (<${Countdown} to=${segment.held.until.at} />), or earlier if it is its turn
        <//>`
      }
    </dl>`;
}

function Elided({ segment }) {
  return html`<${Title} segment=${segment} text=${`${plural(segment.missing, "attempt")} that failed like the others`} />
    <p>They are left out here, so that the page opens quickly. The log has all of them.</p>`;
}

function Timer({ segment }) {
  const { timer } = segment;
  return html`<${Title} segment=${segment} text=${timer.fired ? "fired" : "the flow sleeps"} />
    <dl class="facts">
      <${Fact} name="Set"><${Time} at=${timer.set.at} /><//>
      <${Fact} name="Until"><${Time} at=${timer.until.at} />${!timer.fired && html` (<${Countdown} to=${timer.until.at} />)`}<//>
    </dl>`;
}

function Planned({ segment }) {
  const { planned } = segment;
  const latest = planned.latest?.at ?? planned.latest;
  return html`<${Title} segment=${segment} text=${`attempt ${planned.number}, planned`} />
    <dl class="facts">
      <${Fact} name="Earliest"><${Time} at=${segment.from} /> (<${Countdown} to=${segment.from} />)<//>
      ${latest && html`<${Fact} name="Latest"><${Time} at=${latest} /><//>`}
      <${Fact} name="Happens">only if every attempt before it fails<//>
    </dl>`;
}

function GiveUp({ segment }) {
  return html`<${Title} segment=${segment} text="would give up" />
    <p>
      If nothing succeeds until <${Time} at=${segment.from} /> (<${Countdown} to=${segment.from} />), the step fails for good. A flow that
      fails with it becomes a dead letter, which can be redriven.
    </p>`;
}

export function Fact({ name, children }) {
  return html`<div><dt>${name}</dt><dd>${children}</dd></div>`;
}
