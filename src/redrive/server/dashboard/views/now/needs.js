// What needs somebody, out of an overview: pure functions.

import { count, plural } from "../../format.js";

const isAre = (number) => (number === 1 ? "is" : "are");

/** The things that do not go on without a person, the worst first: [{id, tone, title, text, verb, href}]. */
export function needsOf(seen) {
  const { counts, workers } = seen;
  const open = counts.ready + counts.waiting + counts.running;
  const needs = [];
  if (open && !workers.alive) {
    needs.push({
      id: "workers",
      tone: "bad",
      title: "No worker is alive",
      text: `${plural(open, "flow")} ${isAre(open)} not going on. Start one: redrive worker MODULE`,
      verb: "See workers",
      href: "/queues",
    });
  }
  if (seen.dead) {
    needs.push({
      id: "dead",
      tone: "bad",
      title: `${plural(seen.dead, "flow")} failed for good`,
      text: "Nothing tries them again until somebody redrives them, or discards them.",
      verb: "See dead letters",
      href: "/dead",
    });
  }
  if (counts.parked) {
    needs.push({
      id: "parked",
      tone: "warn",
      title: `${plural(counts.parked, "flow")} ${isAre(counts.parked)} parked`,
      text: "They cannot go on as they are: repair what stopped them, then resume them.",
      verb: "See why",
      href: "/flows?status=parked",
    });
  }
  if (workers.holding_loop) {
    needs.push({
      id: "loop",
      tone: "warn",
      title: `${plural(workers.holding_loop, "worker")} stood still`,
      text: "Code held the event loop, so that nothing else on that worker went on meanwhile.",
      verb: "See what held it",
      href: "/queues",
    });
  }
  return needs;
}

/** Dependencies that fail: [{id, name, phase, since, probe_at, waiting, retrying}]. What waits for them goes on by itself. */
export function outagesOf(seen) {
  return seen.problems.by_dependency
    .filter((one) => one.phase && one.phase !== "closed" && !one.held)
    .map((one) => {
      const since = seen.waits.filter((wait) => wait.dependency === one.name && wait.since).map((wait) => wait.since);
      return { id: one.name, ...one, since: since.sort()[0] ?? null };
    });
}

/** What was paused on purpose, as [{id, text, href}]. */
export function heldOf(seen) {
  const held = seen.queues
    .filter((one) => one.paused)
    .map((one) => ({
      id: one.name,
      text: `the queue ${one.name}, with ${plural(one.depth, "flow")}`,
      href: "/queues",
    }));
  for (const one of seen.problems.by_dependency.filter((one) => one.held)) {
    held.push({
      id: `circuit ${one.name}`,
      text: `the circuit of ${one.name}, with ${plural(one.waiting, "step")}`,
      href: "/dependencies",
    });
  }
  if (seen.counts.paused) held.push({ id: "", text: plural(seen.counts.paused, "flow"), href: "/flows?status=paused" });
  return held;
}

/** The one sentence to read. */
export function headlineOf(seen) {
  const needs = needsOf(seen).length;
  if (needs) return needs === 1 ? "1 thing needs you" : `${count(needs)} things need you`;
  const outages = outagesOf(seen);
  const failing = outages.filter((one) => one.phase !== "recovering");
  if (outages.length) {
    const [them, doing] = failing.length ? [failing, "failing"] : [outages, "recovering"];
    return `${them.map((one) => one.name).join(" and ")} ${isAre(them.length)} ${doing}; nothing needs you`;
  }
  return seen.retrying ? "Nothing needs you" : "Everything is fine";
}

/** Whether this store has never run a flow, as far as the overview tells. */
export function isEmpty(seen) {
  const { counts, sparkline } = seen;
  const flows = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const attempts = [...sparkline.succeeded, ...sparkline.retried, ...sparkline.gave_up].some(Boolean);
  return !flows && !seen.dead && !attempts && !seen.retrying && !seen.throughput.completed;
}
