// The log of a flow, as it is stored: each event with its number, read in pages.

import { html, useEffect, useState } from "../../html.js";
import { get, withQuery } from "../../api.js";
import { ErrorNotice } from "../../components/notice.js";
import { Section } from "../../components/page.js";
import { Time } from "../../components/time.js";
import { cut } from "../../format.js";

const PAGE = 100;

export function Log({ flow, version }) {
  const [isOpen, setOpen] = useState(false);
  return html`<${Section} title="Log" aside="as it is stored">
    <details class="card log" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>Show the events</summary>
      ${isOpen && html`<${Events} flow=${flow} version=${version} />`}
    </details>
  <//>`;
}

function Events({ flow, version }) {
  const [state, setState] = useState({ events: [], next: 0, error: null });
  const [pages, setPages] = useState(1);
  useEffect(() => {
    const abort = new AbortController();
    const read = async () => {
      const events = [];
      let next = 0;
      for (let page = 0; page < pages && next !== null; page += 1) {
        const path = withQuery(`/v1/flows/${encodeURIComponent(flow)}/events`, { after: next || null, limit: PAGE });
        const found = await get(path, { signal: abort.signal });
        events.push(...found.events);
        next = found.next;
      }
      setState({ events, next, error: null });
    };
    read().catch((error) => error.name !== "AbortError" && setState((known) => ({ ...known, error })));
    return () => abort.abort();
  }, [flow, version, pages]);
  return html`
    <${ErrorNotice} error=${state.error} />
    <ol class="events">
      ${state.events.map(({ seq, part, at, event }) => {
        const { type, ...more } = event;
        const text = JSON.stringify(more);
        return html`<li key=${`${seq}.${part ?? 0}`}>
          <span class="quiet number">${seq}${part ? `.${part}` : ""}</span>
          <${Time} at=${at} />
          <strong>${type.replaceAll("_", " ")}</strong>
          ${text.length <= 160 ? html`<code>${text === "{}" ? "" : text}</code>` : html`<details><summary><code>${cut(text, 120)}</code></summary><pre tabindex="0">${JSON.stringify(more, null, 2)}</pre></details>`}
        </li>`;
      })}
    </ol>
    ${state.next !== null && state.next !== 0 && html`<button class="button small" onClick=${() => setPages(pages + 1)}>Show more</button>`}
  `;
}
