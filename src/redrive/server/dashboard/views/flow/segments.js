// What an explanation says, as rows of segments on a time axis: attempts, waits, and what is still to come.

import { epoch } from "../../format.js";

const ATTEMPT_TONES = {
  completed: "good",
  failed: "bad",
  "timed out": "bad",
  lost: "bad",
  running: "busy",
  accepted: "busy",
  "left behind": "warn",
};

/**
 * The rows of a waterfall. Each segment: {kind, tone, from, to, title, ...what it is about}; kind is attempt, wait,
 * held, queued, elided, timer, future or giveUp.
 */
export function rowsOf(explanation, now) {
  const ended = explanation.finished_at ? epoch(explanation.finished_at) : null;
  return explanation.timeline
    .filter((entry) => entry.type !== "note")
    .map((entry) => (entry.type === "timer" ? timerRow(entry, now, ended) : itemRow(entry, now, ended)));
}

const at = (moment) => epoch(moment.at ?? moment);

function timerRow(timer, now, ended) {
  const from = at(timer.set);
  const to = timer.fired ? at(timer.fired) : (ended ?? at(timer.until));
  const segments = split({ kind: "timer", tone: "held", from, to, timer }, now);
  return {
    id: `timer-${timer.number}`,
    name: "timer",
    state: timer.fired ? "completed" : ended ? "abandoned" : "waiting",
    segments,
    entry: timer,
  };
}

function itemRow(item, now, ended) {
  const segments = [];
  const attempts = item.attempts ?? [];
  const state = item.state ?? "queued";
  const isOpen = ["queued", "running", "waiting"].includes(state) && ended === null;
  const added = at(item.added);
  const first = attempts.length ? at(attempts[0].began) : isOpen ? now : (ended ?? added);
  if (first - added > 5) segments.push(...split({ kind: "queued", tone: "quiet", from: added, to: first, item }, now));
  for (const [place, attempt] of attempts.entries()) {
    const next = attempts[place + 1];
    segments.push(attemptSegment(item, attempt, now, ended));
    segments.push(...waitsAfter(item, attempt, next, now, isOpen, ended));
  }
  if (!attempts.length && isOpen) segments.push(...heldWithout(item, now));
  if (isOpen && item.schedule) segments.push(...future(item, item.schedule, now));
  return { id: `item-${item.number}`, name: item.step, state, segments, entry: item };
}

function attemptSegment(item, attempt, now, ended) {
  const outcome = attempt.outcome ?? "running";
  const from = at(attempt.began);
  const isRunning = outcome === "running" || outcome === "accepted" || outcome === "left behind";
  const to = attempt.ended ? at(attempt.ended) : isRunning ? now : (ended ?? from);
  return {
    kind: "attempt",
    tone: ATTEMPT_TONES[outcome] ?? "quiet",
    from,
    to: Math.max(from, to),
    item,
    attempt,
    outcome,
  };
}

/** The waits between an attempt and the next: what was decided, and then what its dependency held back. */
function waitsAfter(item, attempt, next, now, isOpen, ended) {
  if (!attempt.ended) return [];
  const from = at(attempt.ended);
  const missing = next ? next.number - attempt.number - 1 : 0;
  if (missing > 0) return [{ kind: "elided", tone: "quiet", from, to: at(next.began), item, missing }];
  const planned = attempt.decision?.next ?? attempt.next;
  if (!planned) return [];
  const end = next ? at(next.began) : isOpen ? Infinity : (ended ?? at(planned));
  const held = (item.held_back ?? []).filter((one) => at(one.when) >= from - 1 && at(one.when) < end);
  const stop = Math.min(end, held.length ? at(held[0].when) : at(planned));
  const found = split({ kind: "wait", tone: toneOfWait(attempt), from, to: Math.max(from, stop), item, attempt }, now);
  return [...found, ...heldSegments(item, held, end, now)];
}

function heldWithout(item, now) {
  return heldSegments(item, item.held_back ?? [], Infinity, now);
}

function heldSegments(item, held, end, now) {
  return held.flatMap((one, place) => {
    const next = held[place + 1];
    const until = Math.max(at(one.until), next || end !== Infinity ? 0 : now);
    const to = Math.min(end, next ? at(next.when) : end === Infinity ? until : end);
    return split({ kind: "held", tone: "held", from: at(one.when), to, item, held: one }, now);
  });
}

const toneOfWait = (attempt) =>
  attempt.decision?.because?.retry_after ? "busy" : attempt.outcome === "returned" ? "quiet" : "warn";

/** A segment that reaches past now, as two: what has passed, and what is to come. */
function split(segment, now) {
  if (segment.to <= now + 1) return [segment];
  if (segment.from >= now) return [{ ...segment, ahead: true }];
  return [
    { ...segment, to: now, goesOn: segment.to },
    { ...segment, from: now, ahead: true, since: segment.from },
  ];
}

function future(item, schedule, now) {
  const segments = [];
  let from = null;
  for (const planned of schedule.attempts ?? []) {
    const earliest = at(planned.at);
    if (from !== null && earliest > from)
      segments.push({ kind: "wait", tone: "warn", ahead: true, from, to: earliest, item, planned });
    segments.push({
      kind: "future",
      tone: "quiet",
      ahead: true,
      from: Math.max(now, earliest),
      to: Math.max(now, earliest),
      item,
      planned,
    });
    from = Math.max(now, earliest);
  }
  const end = schedule.gives_up_at ? at(schedule.gives_up_at) : null;
  if (end !== null) {
    if (from !== null && end > from)
      segments.push({ kind: "wait", tone: "warn", ahead: true, from, to: end, item, lastWait: true });
    segments.push({ kind: "giveUp", tone: "bad", ahead: true, from: end, to: end, item, schedule });
  }
  return segments;
}

/** What an axis must show: from when, which moment is now, and the times still to come. */
export function spanOf(explanation, rows, now) {
  const from = Math.min(epoch(explanation.began_at ?? explanation.created_at), epoch(explanation.created_at));
  const end = explanation.finished_at ? epoch(explanation.finished_at) : now;
  const ahead = explanation.finished_at ? [] : rows.flatMap((row) => row.segments).map((one) => one.to);
  return { from, now: Math.max(end, from + 1), ahead };
}
