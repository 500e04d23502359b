// What happens next without anybody: a time line, the soonest first.

import { html } from "../../html.js";
import { Empty } from "../../components/notice.js";
import { Section } from "../../components/page.js";
import { capital } from "../../components/said.js";
import { Countdown } from "../../components/time.js";

export function Coming({ coming }) {
  return html`<${Section} title="What happens next">
    ${
      coming.length
        ? html`<ol class="card coming">
            ${coming.map(
              (one, place) => html`<li key=${place}>
                <span class="coming-when">${one.at ? html`<${Countdown} to=${one.at} due="now" />` : html`<span class="quiet">needs you</span>`}</span>
                <bdi>${capital(one.what)}</bdi>
              </li>`,
            )}
          </ol>`
        : html`<${Empty} title="Nothing is scheduled" tone="good" />`
    }
  <//>`;
}
