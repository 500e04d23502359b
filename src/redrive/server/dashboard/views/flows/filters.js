// The filter bar: search, the states that are asked for most, and further filters. All of it is in the URL.

import { html, useEffect, useRef, useState } from "../../html.js";
import { setQuery, urlWith } from "../../router.js";
import { waitName } from "../../format.js";
import { inWords, SPANS, WAITS } from "./selection.js";

const TABS = [
  ["All", {}],
  ["Needs you", { status: ["failed", "parked"] }],
  ["Retrying", { retrying: "true" }],
  ["Waiting", { status: ["waiting", "ready"] }],
  ["Running", { status: ["running"] }],
  ["Paused", { status: ["paused"] }],
  ["Completed", { status: ["completed"] }],
  ["Cancelled", { status: ["cancelled"] }],
];

export function Filters({ parameters }) {
  const words = inWords(parameters);
  return html`<search class="filters" aria-label="Flows">
    <${Search} text=${parameters.get("text") ?? ""} focus=${parameters.get("focus") === "search"} />
    <ul class="tabs" aria-label="By state">
      ${TABS.map(([name, filter]) => {
        const url = urlWith({
          status: filter.status ?? null,
          retrying: filter.retrying ?? null,
          cursor: null,
          focus: null,
        });
        return html`<li key=${name}><a href=${url} aria-current=${isShown(filter, parameters) ? "true" : undefined}>${name}</a></li>`;
      })}
    </ul>
    <${More} parameters=${parameters} />
    ${
      words.length > 0 &&
      html`<ul class="chips" aria-label="Filters in force">
        ${words.map(({ text, without }) => html`<li key=${text}><bdi>${text}</bdi> <a href=${urlWith({ ...without, cursor: null })} aria-label=${`Remove the filter ${text}`}>×</a></li>`)}
        <li class="clear"><a href="/flows">Clear all</a></li>
      </ul>`
    }
  </search>`;
}

function isShown(filter, parameters) {
  const same = (one, other) => one.length === other.length && one.every((each) => other.includes(each));
  return (
    same(parameters.getAll("status"), filter.status ?? []) &&
    (parameters.get("retrying") ?? "") === (filter.retrying ?? "")
  );
}

function Search({ text, focus }) {
  const field = useRef(null);
  const timer = useRef(0);
  useEffect(() => {
    if (focus) field.current.focus();
  }, [focus]);
  useEffect(() => {
    if (document.activeElement !== field.current) field.current.value = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (event) => {
    clearTimeout(timer.current);
    const wanted = event.target.value.trim();
    timer.current = setTimeout(() => setQuery({ text: wanted, cursor: null, focus: null }, { replace: true }), 100);
  };
  const leave = (event) => event.key === "Escape" && field.current.blur();
  return html`<input
    ref=${field}
    data-search
    type="search"
    class="search"
    defaultValue=${text}
    maxlength="200"
    placeholder="Search: id, key, definition, error"
    aria-label="Search flows by id, key, definition or error"
    onInput=${search}
    onKeyDown=${leave}
  />`;
}

const FIELDS = [
  ["definition", "Definition", "Order"],
  ["dependency", "Dependency", "payments"],
  ["error", "Error type", "ConnectionError"],
  ["queue", "Queue", "default"],
  ["key", "Key", "order-17"],
  ["batch", "Batch", "night 2026-11-19"],
  ["parent", "Parent", "the id of a flow"],
];

function More({ parameters }) {
  const [isOpen, setOpen] = useState(false);
  const apply = (event) => {
    event.preventDefault();
    const sent = new FormData(event.target);
    const changes = Object.fromEntries(
      [...FIELDS.map(([name]) => name), "waits_for", "since"].map((name) => [name, sent.get(name).trim()]),
    );
    // One more tag: those in force stay until they are taken away.
    const tags = [...new Set([...parameters.getAll("tag"), sent.get("tag").trim()])].filter(Boolean);
    setQuery({ ...changes, tag: tags, cursor: null, focus: null });
    setOpen(false);
  };
  return html`<details class="more-filters" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary class="button">Filters</summary>
    <form key=${parameters.toString()} class="card" onSubmit=${apply}>
      ${FIELDS.map(
        ([name, title, hint]) =>
          html`<label key=${name} class="field"><span>${title}</span><input name=${name} maxlength="200" placeholder=${hint} defaultValue=${parameters.get(name) ?? ""} /></label>`,
      )}
      <label class="field"><span>Also with the tag</span>
        <input name="tag" maxlength="321" placeholder="tenant=acme" pattern="[^=]+=.+" title="a name and a text: tenant=acme" />
      </label>
      <label class="field"><span>Waits for</span>
        <select name="waits_for">
          <option value="">anything</option>
          ${WAITS.map((one) => html`<option key=${one} value=${one} selected=${parameters.get("waits_for") === one}>${waitName(one)}</option>`)}
        </select>
      </label>
      <label class="field"><span>Started</span>
        <select name="since">
          <option value="">at any time</option>
          ${Object.keys(SPANS).map((one) => html`<option key=${one} value=${one} selected=${parameters.get("since") === one}>in the last ${one}</option>`)}
        </select>
      </label>
      <div class="dialog-buttons"><button class="button main">Apply</button></div>
    </form>
  </details>`;
}
