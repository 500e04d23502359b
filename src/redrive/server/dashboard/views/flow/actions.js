// What an operator can do to a flow and to its steps. Each asks for the reason first.

import { html } from "../../html.js";
import { post } from "../../api.js";
import { refresh } from "../../live.js";
import { may } from "../../session.js";
import { ask } from "../../components/dialog.js";

const FINISHED = ["completed", "failed", "cancelled"];

const CONTROLS = {
  retry: {
    title: "Retry now?",
    verb: "Retry now",
    says: "Each attempt that waits begins at once, instead of at its time. Its policy and its count of attempts stay as they are. Behind an open circuit it takes its place in line.",
    done: "The attempts that waited begin now.",
  },
  pause: {
    title: "Pause this flow?",
    verb: "Pause",
    says: "No further attempt begins until it is resumed. Running attempts may finish.",
    done: "The flow will pause.",
  },
  resume: {
    title: "Resume this flow?",
    verb: "Resume",
    says: "It goes on where it stopped.",
    done: "The flow goes on.",
  },
  cancel: {
    title: "Cancel this flow?",
    verb: "Cancel the flow",
    danger: true,
    says: "Its waits end, and its code may clean up. A cancelled flow cannot be taken up again.",
    fields: [
      {
        name: "force",
        kind: "check",
        label: "End it at once: none of its code runs any more, and nothing is compensated",
      },
    ],
    done: "The flow will be cancelled.",
  },
};

const DEAD = {
  redrive: {
    title: "Redrive this flow?",
    verb: "Redrive",
    says: "It goes on at the step that failed, with a fresh allowance of attempts. What had succeeded is not repeated.",
    done: "The flow was put back and will be run.",
  },
  discard: {
    title: "Discard this dead letter?",
    verb: "Discard",
    danger: true,
    says: "The flow stays failed, and is no longer listed as a dead letter. Its log is kept.",
    done: "The dead letter was discarded.",
  },
};

function open(path, action) {
  ask({
    ...action,
    says: html`<p>${action.says}</p>`,
    run: async (values) => {
      await post(path, values);
      refresh("/v1/flows");
      return action.done;
    },
  });
}

const control = (flow, name) => open(`/v1/flows/${encodeURIComponent(flow.id)}/${name}`, CONTROLS[name]);
const settle = (flow, name) => open(`/v1/dead-letters/${encodeURIComponent(flow.id)}/${name}`, DEAD[name]);

/** Ask for a signal to send. `name`: one that the flow waits for. */
export function sendSignal(flow, name = "") {
  ask({
    title: "Send a signal?",
    says: html`<p>The flow receives it once, and goes on if it waits for it. A signal that it has no use for is kept, or refused in its log.</p>`,
    verb: "Send it",
    fields: [
      { name: "signal", label: "Signal", value: name },
      {
        name: "arguments",
        kind: "json",
        label: "Arguments",
        hint: 'by name, as JSON, such as {"by": "ann"}',
        value: "{}",
      },
    ],
    run: async ({ signal, ...values }) => {
      await post(`/v1/flows/${encodeURIComponent(flow)}/signals/${encodeURIComponent(signal)}`, values);
      refresh("/v1/flows");
      return `The signal ${signal} was sent.`;
    },
  });
}

/** The buttons of a flow: only what makes sense in its state, and what the reader may do. */
export function FlowActions({ explanation, isDead }) {
  if (!may("operate")) return null;
  const flow = { id: explanation.flow_id };
  const { status } = explanation;
  if (status === "failed" && isDead) {
    return html`<button class="button main" onClick=${() => settle(flow, "redrive")}>Redrive</button>
      <button class="button" onClick=${() => settle(flow, "discard")}>Discard</button>`;
  }
  if (FINISHED.includes(status)) return null;
  const isWorkflow = explanation.definition.startsWith("workflow:");
  const held = status === "paused" || status === "parked";
  const waits =
    !held && explanation.timeline.some((entry) => entry.type === "item" && entry.state === "waiting" && !entry.rewound);
  return html`
    ${waits && html`<button class="button main" onClick=${() => control(flow, "retry")}>Retry now</button>`}
    ${
      held
        ? html`<button class="button main" onClick=${() => control(flow, "resume")}>Resume</button>`
        : html`<button class="button" onClick=${() => control(flow, "pause")}>Pause</button>`
    }
    ${isWorkflow && html`<button class="button" onClick=${() => sendSignal(flow.id)}>Signal …</button>`}
    <button class="button danger" onClick=${() => control(flow, "cancel")}>Cancel</button>
  `;
}

const STEP_ACTIONS = {
  reset: {
    title: (step) => `Try ${step} again?`,
    verb: "Try again",
    says: "It gets a fresh allowance of attempts, and the first begins at once.",
    done: "The step will be tried again.",
  },
  complete: {
    title: (step) => `Complete ${step} by hand?`,
    verb: "Complete it",
    says: "The flow goes on as if the step had succeeded with these outputs. Nothing is called.",
    fields: [
      {
        name: "outputs",
        kind: "json",
        label: "Outputs",
        hint: 'as JSON, such as {"reservation": "r-17"}',
        value: "{}",
      },
    ],
    done: "The step will be completed.",
  },
  resolve: {
    title: (step) => `Resolve ${step} by hand?`,
    verb: "Resolve it",
    says: "The flow goes on without the outputs of this step, because it was taken care of in another way.",
    done: "The step will be resolved.",
  },
};

/** The buttons of a step that did not succeed. `index`: which of its items, if there are several. */
export function StepActions({ flow, step, index }) {
  const act = (name) => {
    const action = STEP_ACTIONS[name];
    ask({
      ...action,
      title: action.title(step),
      says: html`<p>${action.says}</p>`,
      run: async (values) => {
        await post(`/v1/flows/${encodeURIComponent(flow)}/steps/${encodeURIComponent(step)}/${name}`, {
          ...values,
          index,
        });
        refresh("/v1/flows");
        return action.done;
      },
    });
  };
  return html`<div class="step-actions">
    <button class="button small" onClick=${() => act("reset")}>Try again</button>
    <button class="button small" onClick=${() => act("complete")}>Complete …</button>
    <button class="button small" onClick=${() => act("resolve")}>Resolve …</button>
  </div>`;
}
