// The filters of the list: from the URL to what the API is asked, and to words.

import { waitName } from "../../format.js";

export const STATUSES = ["ready", "waiting", "running", "paused", "parked", "completed", "failed", "cancelled"];
export const WAITS = ["backoff", "retry_after", "circuit", "recovery", "budget", "limit", "snooze", "redrive"];
export const SPANS = { "15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800 };
const TEXTS = ["definition", "queue", "key", "error", "dependency", "batch", "parent", "text"];

/** The API's filters for a query of this page; names and values that it does not know are left out. */
export function selectionOf(parameters) {
  const status = parameters.getAll("status").filter((one) => STATUSES.includes(one));
  const selection = status.length ? { status } : {};
  for (const name of TEXTS) {
    const value = parameters.get(name)?.trim();
    if (value) selection[name] = value;
  }
  const tags = parameters.getAll("tag").filter((one) => one.trim());
  if (tags.length) selection.tag = tags;
  if (parameters.get("retrying") === "true") selection.retrying = true;
  if (WAITS.includes(parameters.get("waits_for"))) selection.waits_for = parameters.get("waits_for");
  const span = SPANS[parameters.get("since")];
  // Whole minutes, so that a list which is drawn again asks for the same URL.
  if (span) selection.created_after = new Date(Math.floor(Date.now() / 60_000 - span / 60) * 60_000).toISOString();
  return selection;
}

export const isFiltered = (selection) => Object.keys(selection).length > 0;

/** The filters as [{text, without}], `without` being the change of the URL that takes it out. */
export function inWords(parameters) {
  const selection = selectionOf(parameters);
  const words = [];
  const add = (name, text, left = null) => words.push({ text, without: { [name]: left } });
  if (selection.waits_for) add("waits_for", `waits for ${waitName(selection.waits_for)}`);
  if (SPANS[parameters.get("since")]) add("since", `started in the last ${parameters.get("since")}`);
  for (const name of ["definition", "dependency", "error", "queue", "key", "batch", "parent"]) {
    if (selection[name]) add(name, `${name}: ${selection[name]}`);
  }
  for (const tag of selection.tag ?? [])
    add(
      "tag",
      tag,
      selection.tag.filter((one) => one !== tag),
    );
  return words;
}
