// The dialog in front of every action: it says what will happen, asks for the reason, and shows the answer.

import { html, signal, useEffect, useRef, useState } from "../html.js";
import { remember, remembered } from "../preferences.js";
import { ErrorNotice } from "./notice.js";
import { announce } from "./announcements.js";

const asked = signal(null);

/**
 * Ask before an action.
 *
 * title: "Cancel this flow?"; says: what will happen, as text or html; verb: the button, "Cancel the flow";
 * danger: true for what cannot be taken back; fields: [{name, label, hint, kind: "text" | "json" | "check" | "time", optional}];
 * preview: async (values) => text or html, shown above the fields once it is known (a dry run);
 * afterwards: text that stands under the answer, on what to expect from then on;
 * run: async ({why, by, ...values}, progress) => the sentence that says it is done. progress(text, share) shows how far it is.
 */
export function ask(action) {
  asked.value = action;
}

/** Drawn once, by the shell. */
export function ActionDialog() {
  const action = asked.value;
  return action && html`<${Open} key=${action} action=${action} />`;
}

function Open({ action }) {
  const dialog = useRef(null);
  const [state, setState] = useState({ busy: false, error: null, done: "", text: "", share: null });
  const [preview, setPreview] = useState(action.preview ? "Counting …" : null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before instanceof HTMLElement && before.isConnected && before.focus();
  }, []);
  useEffect(() => {
    // The field that had the focus is gone: Enter closes.
    if (state.done) dialog.current.querySelector(".dialog-buttons button")?.focus();
  }, [state.done]);
  useEffect(() => {
    action.preview?.().then(setPreview, (error) => setState((known) => ({ ...known, error })));
  }, [action]);

  const close = () => {
    asked.value = null;
  };
  const submit = async (event) => {
    event.preventDefault();
    let values;
    try {
      values = valuesOf(event.target, action.fields ?? []);
    } catch (error) {
      setState({ ...state, error });
      return;
    }
    remember("by", values.by);
    setState({ busy: true, error: null, done: "", text: "", share: null });
    try {
      const progress = (text, share = null) => setState((known) => ({ ...known, text, share }));
      const done = await action.run(values, progress);
      setState({ busy: false, error: null, done, text: "", share: null });
      announce(done);
    } catch (error) {
      setState({ busy: false, error, done: "", text: "", share: null });
    }
  };
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="dialog-title" onClose=${close} onCancel=${(event) => state.busy && event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2 id="dialog-title">${state.done ? "Done" : action.title}</h2>
      ${
        state.done
          ? html`<p class="done" role="status">${state.done}</p>
              ${action.afterwards && html`<p class="quiet">${action.afterwards}</p>`}
              <div class="dialog-buttons"><button type="button" class="button main" onClick=${close} autofocus>OK</button></div>`
          : html`<div class="says">${action.says}</div>
              ${preview !== null && html`<div class="preview" role="status">${preview}</div>`}
              ${(action.fields ?? []).map((field) => html`<${Field} key=${field.name} field=${field} />`)}
              <label class="field">
                <span>Why <em>(kept in the log)</em></span>
                <input name="why" required maxlength="1000" autocomplete="off" autofocus disabled=${state.busy} />
              </label>
              <label class="field">
                <span>Your name <em>(optional)</em></span>
                <input name="by" maxlength="200" autocomplete="name" defaultValue=${remembered("by")} disabled=${state.busy} />
              </label>
              <${ErrorNotice} error=${state.error} />
              ${state.busy && html`<${Progress} text=${state.text} share=${state.share} />`}
              <div class="dialog-buttons">
                <button type="button" class="button" onClick=${close} disabled=${state.busy}>Back</button>
                <button class="button main ${action.danger ? "danger" : ""}" disabled=${state.busy}>${action.verb}</button>
              </div>`
      }
    </form>
  </dialog>`;
}

function Field({ field }) {
  const note = html`<span>${field.label}${field.hint && html` <em>${field.hint}</em>`}</span>`;
  if (field.kind === "check") {
    return html`<label class="field check"><input type="checkbox" name=${field.name} />${note}</label>`;
  }
  if (field.kind === "json") {
    return html`<label class="field">
      ${note}<textarea name=${field.name} rows="5" spellcheck="false" required=${!field.optional}>${field.value ?? ""}</textarea>
    </label>`;
  }
  const value = field.value ?? "";
  const type = field.kind === "time" ? "datetime-local" : "text";
  return html`<label class="field">${note}<input type=${type} name=${field.name} defaultValue=${value} required=${!field.optional} /></label>`;
}

function Progress({ text, share }) {
  return html`<div class="progress">
    <progress max="1" value=${share ?? undefined} aria-label="Progress"></progress><span role="status">${text}</span>
  </div>`;
}

function valuesOf(form, fields) {
  const sent = new FormData(form);
  const values = { why: sent.get("why").trim(), by: sent.get("by").trim() };
  if (!values.why) throw new Error("Say why, in a few words: whoever reads the log next will ask.");
  for (const { name, kind, label } of fields) {
    if (kind === "check") values[name] = sent.has(name);
    else if (kind === "json") {
      const text = sent.get(name).trim();
      try {
        values[name] = text ? JSON.parse(text) : null;
      } catch (error) {
        throw new Error(`${label} is not JSON: ${error.message}. Write for instance {"reservation": "r-17"}.`, {
          cause: error,
        });
      }
    } else values[name] = sent.get(name).trim();
  }
  return values;
}
