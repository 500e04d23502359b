// Now, before anything ever ran: everything is fine, and how to start a first flow.

import { html } from "../../html.js";
import { PageHead } from "../../components/page.js";
import { Shape } from "../../components/status.js";

const MODULE = `# hello.py
import redrive

@redrive.action
async def greet(name: str) -> str:
    return f"hello {name}"`;

const COMMANDS = `redrive worker hello.py
redrive start greet --input '{"name": "Anna"}'`;

export function FirstFlow({ workers }) {
  return html`<${PageHead} title="Everything is fine" lead="Nothing fails, because nothing has run in the last hour." />
    <div class="card first-flow">
      <h2><${Shape} tone="good" />Start a first flow</h2>
      <p>An action does the work, and has no retry code. Whatever it raises, this page will say what happens next.</p>
      <pre tabindex="0">${MODULE}</pre>
      <p>${workers ? "A worker is alive already. Run these on its machine, with the same store:" : "Run it and start it, with the same store as this server:"}</p>
      <pre tabindex="0">${COMMANDS}</pre>
      <p>Or <code>redrive demo</code>: a shop in the middle of an outage, to look around in.</p>
    </div>`;
}
