// What surrounds every view: navigation, the state of the connection, who is signed in, keys, theme.

import { html, signal, useEffect, useRef } from "../html.js";
import { connection } from "../live.js";
import { helpShown } from "../keyboard.js";
import { path } from "../router.js";
import { session, signOut } from "../session.js";
import { remember, remembered } from "../preferences.js";
import { ActionDialog } from "./dialog.js";
import { Announcements } from "./announcements.js";

const menuOpen = signal(false);
const theme = signal(remembered("theme", "system"));

export function Shell({ routes, current, children }) {
  useEffect(() => {
    menuOpen.value = false;
  }, [path.value]);
  return html`
    <a class="skip" href="#content">Skip to the content</a>
    <div class="shell">
      <header class="side ${menuOpen.value ? "menu-open" : ""}">
        <a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="22" height="22" />redrive</a>
        <${Connection} />
        <button class="menu-button" aria-expanded=${menuOpen.value} aria-controls="menu" onClick=${() => (menuOpen.value = !menuOpen.value)}>
          Menu
        </button>
        <div class="menu" id="menu">
          <nav aria-label="Views">
            <ul>
              ${routes
                .filter((route) => route.nav)
                .map(
                  (route) => html`<li key=${route.path}>
                    <a href=${route.path} aria-current=${isCurrent(route, current) ? "page" : undefined}>${route.nav.title ?? route.title}</a>
                  </li>`,
                )}
            </ul>
          </nav>
          <${About} />
        </div>
      </header>
      <main id="content">${children}</main>
    </div>
    <${ActionDialog} />
    <${Help} routes=${routes} />
    <${Announcements} />
  `;
}

/** A flow's view belongs to the list of flows. */
const isCurrent = (route, current) =>
  current === route || (current?.within !== undefined && current.within === route.path);

const CONNECTIONS = {
  live: ["good", "Live"],
  connecting: ["quiet", "Connecting"],
  reconnecting: ["warn", "Reconnecting"],
  paused: ["quiet", "Paused"],
  none: ["quiet", ""],
};

function Connection() {
  const [tone, word] = CONNECTIONS[connection.value];
  return html`<span class="connection ${tone}" data-connection=${connection.value} role="status">${word && html`<i aria-hidden="true"></i>`}${word}</span>`;
}

function About() {
  const known = session.value;
  const next = { system: "light", light: "dark", dark: "system" }[theme.value] ?? "system";
  const setTheme = () => {
    theme.value = next;
    remember("theme", next === "system" ? "" : next);
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
  };
  return html`<div class="about">
    ${known.store && html`<p class="about-store" title=${known.store}><bdi>${known.store}</bdi></p>`}
    ${known.read_only && html`<p>Read-only: start it with <code>--operate</code> to act.</p>`}
    ${
      known.signed_in &&
      known.keys_required &&
      html`<p>
        <bdi>${known.name}</bdi> · ${known.role}
        <button class="plain" onClick=${signOut}>Sign out</button>
      </p>`
    }
    <p class="about-buttons">
      <button class="plain" onClick=${setTheme} aria-label=${`Theme: ${theme.value}. Switch to ${next}.`}>Theme: ${theme.value}</button>
      <button class="plain" onClick=${() => (helpShown.value = true)}>Keys <kbd>?</kbd></button>
    </p>
    ${known.version && html`<p class="quiet">redrive ${known.version}</p>`}
  </div>`;
}

function Help({ routes }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (helpShown.value) dialog.current?.showModal();
  }, [helpShown.value]);
  if (!helpShown.value) return null;
  const keys = [
    ["/", "search"],
    ["j k", "next and previous row"],
    ["Enter", "open the row"],
    ...routes
      .filter((route) => route.nav?.key)
      .map((route) => [`g ${route.nav.key}`, `go to ${route.nav.title ?? route.title}`]),
    ["Esc", "close a dialog"],
    ["?", "these keys"],
  ];
  return html`<dialog ref=${dialog} class="dialog" aria-labelledby="keys-title" onClose=${() => (helpShown.value = false)}>
    <h2 id="keys-title">Keys</h2>
    <dl class="keys-list">
      ${keys.map(([key, what]) => html`<div key=${key}><dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd>`)}</dt><dd>${what}</dd></div>`)}
    </dl>
    <form method="dialog" class="dialog-buttons"><button class="button main">Close</button></form>
  </dialog>`;
}
