// Redriving and discarding dead letters: one, some, a group, or all that match a filter.

import { html } from "../html.js";
import { get, post, withQuery } from "../api.js";
import { count, plural } from "../format.js";
import { refresh } from "../live.js";
import { ask } from "./dialog.js";

// So many are settled in one request, so that the reader sees how far it is.
const PORTION = 250;

const VERBS = {
  redrive: {
    title: "Redrive",
    done: "redriven",
    afterwards: "A flow that fails for good again is listed as dead again.",
    says: "Each flow continues at the step that failed. Completed steps are not run again, and the step's allowance of attempts begins anew.",
  },
  discard: {
    title: "Discard",
    done: "discarded",
    danger: true,
    says: "The flows stay failed, and are no longer listed here. A discarded letter cannot be redriven.",
  },
};

/** Ask before settling the dead letter of one flow. */
export function settleOne(verb, letter) {
  const words = VERBS[verb];
  ask({
    title: `${words.title} this flow?`,
    says: html`<p><bdi>${letter.step || "The flow's own code"}</bdi> failed: <bdi>${letter.message || letter.error_type}</bdi></p>
      <p>${words.says}</p>`,
    verb: words.title,
    danger: words.danger,
    afterwards: words.afterwards,
    run: async ({ why, by }) => {
      await post(`/v1/dead-letters/${encodeURIComponent(letter.flow_id)}/${verb}`, { why, by });
      refreshAll();
      return `The flow was ${words.done}.`;
    },
  });
}

/** Ask before settling the letters of these flows. */
export function settleChosen(verb, flows, whenDone) {
  const words = VERBS[verb];
  ask({
    title: `${words.title} ${plural(flows.length, "flow")}?`,
    says: words.says,
    verb: `${words.title} ${count(flows.length)}`,
    danger: words.danger,
    afterwards: words.afterwards,
    run: async ({ why, by }, progress) => {
      const settled = await inPortions(verb, { why, by }, flows, progress);
      whenDone();
      return told(settled, flows.length, words.done);
    },
  });
}

/** Ask before settling all dead letters that match a filter; without any, all there are. `what` names them. */
export function settleMatching(verb, filter, what) {
  const words = VERBS[verb];
  const chosen = Object.keys(filter).length ? { filter } : { all: true };
  let expected = null;
  ask({
    title: `${words.title} ${what}?`,
    says: words.says,
    verb: words.title,
    danger: words.danger,
    afterwards: words.afterwards,
    preview: async () => {
      expected = (await post(`/v1/dead-letters/${verb}`, { ...chosen, dry_run: true, why: "a dry run" })).count;
      return html`A dry run finds <strong>${plural(expected, "dead letter")}</strong>.`;
    },
    run: async (words_, progress) => {
      let settled = 0;
      let seen = 0;
      // A letter that dies again meanwhile is not taken twice.
      const taken = new Set();
      for (;;) {
        const page = await get(withQuery("/v1/dead-letters", { ...filter, limit: PORTION }));
        const flows = page.dead_letters.map((one) => one.flow_id).filter((id) => !taken.has(id));
        if (!flows.length) break;
        for (const id of flows) taken.add(id);
        seen += flows.length;
        settled += (await post(`/v1/dead-letters/${verb}`, { ...words_, flows })).settled.length;
        progress(
          `${count(settled)} of ${count(expected ?? seen)} ${words.done}`,
          expected ? Math.min(1, settled / expected) : null,
        );
      }
      refreshAll();
      return told(settled, seen, words.done);
    },
  });
}

async function inPortions(verb, words, flows, progress) {
  let settled = 0;
  for (let from = 0; from < flows.length; from += PORTION) {
    const portion = flows.slice(from, from + PORTION);
    settled += (await post(`/v1/dead-letters/${verb}`, { ...words, flows: portion })).settled.length;
    progress(`${count(settled)} of ${count(flows.length)}`, settled / flows.length);
  }
  refreshAll();
  return settled;
}

function told(settled, asked, done) {
  const were = settled === 1 ? "flow was" : "flows were";
  const others = asked > settled ? ` ${count(asked - settled)} had been settled by someone else.` : "";
  return `${count(settled)} ${were} ${done}.${others}`;
}

function refreshAll() {
  refresh("/v1/dead-letters");
  refresh("/v1/overview");
}
