// Tables: headers with a scope, rows that the keyboard reaches, and cards instead of rows on a narrow screen.

import { html } from "../html.js";
import { Empty } from "./notice.js";

/**
 * A table of rows.
 *
 * columns: [{title, cell: (row) => content, number: true to align right, wide: true to take the rest, hideTitle: true}]
 * The first column holds the row's main link, `<a data-row href=...>`, which j and k move between.
 * id: (row) => a string that stays the row's own. caption: for readers that do not see the heading.
 * chosen: an optional signal of a Set of ids; with it, each row has a check box.
 */
export function Table({ columns, rows, id, caption, empty, chosen, label = id, tone }) {
  if (!rows.length) return empty ?? html`<${Empty} title="Nothing here" />`;
  return html`<div class="table-frame">
    <table>
      <caption class="unseen">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${chosen && html`<th scope="col" class="check"><${ChooseAll} rows=${rows} id=${id} chosen=${chosen} /></th>`}
          ${columns.map((column) => html`<th key=${column.title} scope="col" class=${classOf(column)}>${heading(column)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (
            row,
          ) => html`<tr key=${id(row)} class=${tone?.(row) ?? ""} aria-selected=${chosen?.value.has(id(row)) || undefined}>
            ${chosen && html`<td class="check"><${Choose} one=${id(row)} name=${label(row)} chosen=${chosen} /></td>`}
            ${columns.map((column, place) => bodyCell(column, row, place === 0))}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

const classOf = (column) => [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ");

const heading = (column) => (column.hideTitle ? html`<span class="unseen">${column.title}</span>` : column.title);

function bodyCell(column, row, first) {
  const label = column.hideTitle ? "" : column.title;
  const content = html`<div class="cell">${column.cell(row)}</div>`;
  return first
    ? html`<th key=${column.title} scope="row" class=${classOf(column)} data-label=${label}>${content}</th>`
    : html`<td key=${column.title} class=${classOf(column)} data-label=${label}>${content}</td>`;
}

function Choose({ one, name, chosen }) {
  const toggle = () => {
    const next = new Set(chosen.value);
    if (!next.delete(one)) next.add(one);
    chosen.value = next;
  };
  return html`<input type="checkbox" aria-label=${`Select ${name}`} checked=${chosen.value.has(one)} onChange=${toggle} />`;
}

function ChooseAll({ rows, id, chosen }) {
  const all = rows.every((row) => chosen.value.has(id(row)));
  const some = !all && rows.some((row) => chosen.value.has(id(row)));
  const toggle = () => {
    chosen.value = all ? new Set() : new Set(rows.map(id));
  };
  return html`<input type="checkbox" aria-label="Select all rows" checked=${all} indeterminate=${some} onChange=${toggle} />`;
}

/** Links to the first and the next page; `cursor` is the `next` of the page shown. */
export function Pager({ cursor, isFirst, urlOf }) {
  if (!cursor && isFirst) return null;
  return html`<nav class="pager" aria-label="Pages">
    ${isFirst ? html`<span></span>` : html`<a class="button" href=${urlOf(null)}>First page</a>`}
    ${cursor && html`<a class="button" href=${urlOf(cursor)} rel="next">Next page</a>`}
  </nav>`;
}
