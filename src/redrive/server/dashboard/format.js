// Numbers, durations, times and names as text.

const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];

const numbers = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const clockOfMinute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

/** 1903 as "1,903". */
export const count = (number) => (number === null || number === undefined ? "–" : numbers.format(number));

/** 12345 as "12.3K". */
export const short = (number) => (number === null || number === undefined ? "–" : compact.format(number));

/** "1 flow", "1,903 flows". */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Seconds with at most two units, as the command line writes them: "4ms", "1.25s", "2m 5s", "3h 20m". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  const sign = seconds < 0 ? "-" : "";
  let left = Math.abs(seconds);
  if (left < 0.9995) return `${sign}${Math.round(left * 1000)}ms`;
  if (left < 10) return `${sign}${Number(left.toFixed(2))}s`;
  const precision = left < 3_600 ? 1 : left < 86_400 ? 60 : 3_600;
  left = Math.round(left / precision) * precision;
  const parts = [];
  for (const [unit, size] of UNITS) {
    const number = Math.floor(left / size);
    left -= number * size;
    if (number) parts.push(`${number}${unit}`);
  }
  return sign + (parts.slice(0, 2).join(" ") || "0s");
}

/** Seconds left or gone, without fractions, for texts that change each second: "12s", "4m 3s". */
export const coarse = (seconds) => (Math.abs(seconds) < 10 ? `${Math.round(seconds)}s` : duration(Math.round(seconds)));

/** Seconds between two ISO times or epoch milliseconds. */
export const secondsBetween = (from, to) => (epoch(to) - epoch(from)) / 1000;

/** Epoch milliseconds of an ISO time, epoch seconds or epoch milliseconds. */
export function epoch(time) {
  if (typeof time === "string") return Date.parse(time);
  return time < 1e11 ? time * 1000 : time;
}

/** The time of day in the reader's zone, with the day if it is not today. */
export function time(when) {
  const date = new Date(epoch(when));
  return date.toDateString() === new Date().toDateString() ? clock.format(date) : dayAndClock.format(date);
}

/** The time of day without seconds, for axes. */
export const minute = (when) => clockOfMinute.format(new Date(epoch(when)));

/** The whole time in the reader's zone and in UTC, for a title. */
export function fullTime(when) {
  const date = new Date(epoch(when));
  return `${whole.format(date)}\n${date
    .toISOString()
    .replace("T", " ")
    .replace(/\.\d+Z$/, " UTC")}`;
}

/** "workflow:Billing" as its kind and its name. */
export function definitionParts(definition) {
  const colon = definition.indexOf(":");
  return colon < 0
    ? { kind: "", name: definition }
    : { kind: definition.slice(0, colon), name: definition.slice(colon + 1) };
}

/** An error type without its modules: "ConnectionError" for "builtins.ConnectionError". */
export const shortType = (type) => (type ?? "").replace(/^.*\.(?=[^.]+$)/, "");

/** Text cut to a length; the whole text belongs in a title or a disclosure. */
export const cut = (text, most = 200) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

const WAITS = {
  "": "nothing: it is being tried",
  start: "its first attempt",
  backoff: "backoff",
  retry_after: "Retry-After of the server",
  circuit: "an open circuit",
  recovery: "its turn after the outage",
  budget: "the retry budget",
  limit: "a rate limit",
  rate_limit: "a rate limit",
  snooze: "a snooze",
  slot: "a free slot",
  queue: "a paused queue",
  timer: "a timer",
  worker: "a worker",
  redrive: "a worker, after its redrive",
  resume: "somebody to resume it",
  repair: "somebody to repair it",
};

/** What an item waits for, in words. */
export const waitName = (kind) => WAITS[kind] ?? kind.replaceAll("_", " ");

/** A value of JSON as text of one size, for a preformatted block. */
export function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** A value that a role may not see, as the server describes it. */
export function isRedacted(value) {
  return value !== null && typeof value === "object" && value.redacted === true && typeof value.bytes === "number";
}
