// A row of filters that live in the query string: text fields and choices.

import { html, useEffect, useState } from "../html.js";
import { query, setQuery } from "../router.js";

/** of: [{name, label, options: for a choice, usual: the option that needs no query}]. What changes is in the URL at once. */
export function Filters({ of, label }) {
  const chosen = (one) => query.value.get(one.name) ?? one.usual ?? "";
  const change = (one, value) => setQuery({ [one.name]: value === one.usual ? null : value, cursor: null, open: null });
  const isSet = of.some((one) => chosen(one) !== (one.usual ?? ""));
  const clear = () =>
    setQuery(Object.fromEntries([...of.map((one) => [one.name, null]), ["cursor", null], ["open", null]]));
  return html`<form class="filter-row" role="search" aria-label=${label} onSubmit=${(event) => event.preventDefault()}>
    ${of.map((one, place) => {
      const Kind = one.options ? Choice : TextField;
      return html`<label key=${one.name} class="filter">
        <span>${one.label}</span>
        <${Kind} filter=${one} value=${chosen(one)} change=${(value) => change(one, value)} first=${place === 0} />
      </label>`;
    })}
    ${isSet && html`<button type="button" class="plain" onClick=${clear}>Clear filters</button>`}
  </form>`;
}

function Choice({ filter, value, change }) {
  return html`<select value=${value} onChange=${(event) => change(event.target.value)}>
    ${filter.usual ? null : html`<option value="">any</option>`}
    ${filter.options.map((option) => html`<option key=${option} value=${option}>${option.replaceAll("_", " ")}</option>`)}
  </select>`;
}

/** What is typed is kept here until it is entered, so that a live update of the view does not take it away. */
function TextField({ value, change, first }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return html`<input
    value=${typed}
    placeholder="any"
    spellcheck="false"
    autocomplete="off"
    data-search=${first ? "" : undefined}
    onInput=${(event) => setTyped(event.target.value)}
    onChange=${(event) => change(event.target.value.trim())}
  />`;
}
