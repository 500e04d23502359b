// The name of a definition, with its kind beside it.

import { html } from "../html.js";
import { definitionParts } from "../format.js";

export function Definition({ of }) {
  const { kind, name } = definitionParts(of);
  return html`<span class="definition"><bdi>${name}</bdi>${kind && html` <span class="kind">${kind}</span>`}</span>`;
}
