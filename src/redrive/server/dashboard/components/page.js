// The frame of a view: its heading, what belongs beside it, and sections.

import { html, useEffect, useRef } from "../html.js";

/** The heading gets the focus after a change of the view, so that the keyboard and a reader begin there. */
export function PageHead({ title, children, lead }) {
  const heading = useRef(null);
  useEffect(() => {
    if (document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, []);
  return html`<header class="page-head">
    <div>
      <h1 ref=${heading} tabindex="-1">${title}</h1>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    ${children && html`<div class="page-tools">${children}</div>`}
  </header>`;
}

/** A titled part of a view; `aside` stands at the right of its title. */
export function Section({ title, aside, children, id }) {
  return html`<section class="section" aria-label=${title} id=${id}>
    <div class="section-head"><h2>${title}</h2>${aside && html`<div class="aside">${aside}</div>`}</div>
    ${children}
  </section>`;
}

/** A figure with its name: `<${Figure} name="running" value="12" />`. */
export function Figure({ name, value, note, tone = "", href }) {
  const inner = html`<span class="figure-value ${tone}">${value}</span><span class="figure-name">${name}</span>
    ${note && html`<span class="figure-note">${note}</span>`}`;
  return href ? html`<a class="figure" href=${href}>${inner}</a>` : html`<div class="figure">${inner}</div>`;
}
