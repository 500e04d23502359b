// Actions on many flows: on those that are chosen, one after the other, or on all that match the filters, in batches.

import { html, useEffect, useState } from "../../html.js";
import { post } from "../../api.js";
import { refresh } from "../../live.js";
import { may } from "../../session.js";
import { ask } from "../../components/dialog.js";
import { count, plural } from "../../format.js";
import { isFiltered } from "./selection.js";

const AT_ONCE = 4;

const ACTIONS = {
  retry: {
    verb: "Retry now",
    says: "Attempts that wait begin at once. Flows that wait for nothing are left as they are.",
  },
  pause: { verb: "Pause", says: "No further attempt of them begins until they are resumed." },
  resume: { verb: "Resume", says: "Paused and parked flows go on where they stopped." },
  cancel: {
    verb: "Cancel",
    danger: true,
    says: "Their waits end, and their code may clean up. A cancelled flow cannot be taken up again.",
  },
  redrive: {
    verb: "Redrive",
    says: "Flows that failed for good go on at the step that failed, with a fresh allowance of attempts.",
  },
};

export function BulkBar({ chosen, selection, total, flows }) {
  const [all, setAll] = useState(false);
  const isEmpty = !chosen.value.size;
  useEffect(() => {
    // Whoever selects rows again does not mean all that match.
    if (isEmpty) setAll(false);
  }, [isEmpty]);
  if (!may("operate") || isEmpty) return null;
  const everyOne = all && chosen.value.size === flows.length && isFiltered(selection);
  const canAll = isFiltered(selection) && chosen.value.size === flows.length && total && total.count > flows.length;
  const shown = everyOne
    ? `All ${count(total?.count)}${total?.more ? " or more" : ""} that match`
    : `${count(chosen.value.size)} selected`;
  const names = namesFor(
    flows.filter((flow) => everyOne || chosen.value.has(flow.id)),
    everyOne,
  );
  const act = (name) => (everyOne ? askAll(name, selection, chosen) : askChosen(name, [...chosen.value], chosen));
  return html`<div class="bulk" role="region" aria-label="Actions on the selected flows">
    <strong>${shown}</strong>
    ${canAll && html`<button class="plain" onClick=${() => setAll(!all)}>${everyOne ? "Only this page" : `Select all ${count(total.count)} that match`}</button>`}
    <span class="bulk-buttons">
      ${names.map((name) => html`<button key=${name} class="button ${ACTIONS[name].danger ? "danger" : ""}" onClick=${() => act(name)}>${ACTIONS[name].verb}</button>`)}
      <button class="button" onClick=${() => (chosen.value = new Set())}>Clear</button>
    </span>
  </div>`;
}

/** What can be done to at least one of them. A filter may match more than is shown: then everything that it takes. */
function namesFor(flows, everyOne) {
  if (everyOne) return ["retry", "pause", "resume", "cancel"];
  const has = (...wanted) => flows.some((flow) => wanted.includes(flow.status));
  const names = [];
  if (has("failed")) names.push("redrive");
  if (has("waiting", "running", "ready")) names.push("retry", "pause");
  if (has("paused", "parked")) names.push("resume");
  if (has("waiting", "running", "ready", "paused", "parked")) names.push("cancel");
  return names;
}

function askChosen(name, ids, chosen) {
  const action = ACTIONS[name];
  ask({
    title: `${action.verb}: ${plural(ids.length, "flow")}?`,
    verb: `${action.verb} ${plural(ids.length, "flow")}`,
    danger: action.danger,
    says: html`<p>${action.says}</p>`,
    run: async (values, progress) => {
      const refused = [];
      let done = 0;
      const rest = [...ids];
      const turn = async () => {
        for (let id = rest.shift(); id !== undefined; id = rest.shift()) {
          const path =
            name === "redrive"
              ? `/v1/dead-letters/${encodeURIComponent(id)}/redrive`
              : `/v1/flows/${encodeURIComponent(id)}/${name}`;
          try {
            await post(path, values);
          } catch (error) {
            if (error.status !== 409 && error.status !== 404) throw error;
            refused.push(error.message);
          }
          done += 1;
          progress(`${count(done)} of ${count(ids.length)}`, done / ids.length);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, turn));
      chosen.value = new Set();
      refresh("/v1/flows");
      const changed = plural(ids.length - refused.length, "flow");
      if (!refused.length) return `Done: ${changed}.`;
      return `Done: ${changed}. ${count(refused.length)} stayed as they are, the first because: ${refused[0]}`;
    },
  });
}

function askAll(name, filter, chosen) {
  const action = ACTIONS[name];
  let expected = 0;
  ask({
    title: `${action.verb}: all flows that match?`,
    verb: `${action.verb} all that match`,
    danger: action.danger,
    says: html`<p>${action.says}</p>`,
    preview: async () => {
      const found = await post("/v1/flows/bulk", { action: name, filter, dry_run: true, why: "dry run" });
      expected = found.count;
      return `${plural(found.count, "flow")}${found.more ? " or more" : ""} will be changed.`;
    },
    run: async (values, progress) => {
      let done = 0;
      let seen = 0;
      let cursor;
      do {
        const answer = await post("/v1/flows/bulk", { action: name, filter, cursor, ...values });
        done += answer.done;
        seen += answer.count;
        cursor = answer.next;
        progress(
          `${count(seen)} of ${count(Math.max(expected, seen))}`,
          expected ? Math.min(1, seen / expected) : null,
        );
      } while (cursor);
      chosen.value = new Set();
      refresh("/v1/flows");
      return `Done: ${plural(done, "flow")}.`;
    },
  });
}
