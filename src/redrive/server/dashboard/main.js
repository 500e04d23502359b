// The dashboard: the routes, one line a view, and the shell around them.

import { html, render, signal } from "./html.js";
import { keyNeeded } from "./api.js";
import { listenToKeys } from "./keyboard.js";
import { match, path } from "./router.js";
import { loadSession, session } from "./session.js";
import { Shell } from "./components/shell.js";
import { Empty, ErrorNotice } from "./components/notice.js";
import { route as now } from "./views/now.js";
import { route as flows } from "./views/flows.js";
import { route as flow } from "./views/flow.js";
import { route as batches } from "./views/batches.js";
import { route as schedules } from "./views/schedules.js";
import { route as schedule } from "./views/schedule.js";
import { route as dead } from "./views/dead.js";
import { route as dependencies } from "./views/dependencies.js";
import { route as queues } from "./views/queues.js";
import { route as policies } from "./views/policies.js";
import { route as definitions } from "./views/definitions.js";
import { route as signIn } from "./views/signin.js";

const ROUTES = [
  now,
  flows,
  flow,
  dead,
  batches,
  schedules,
  schedule,
  dependencies,
  queues,
  definitions,
  policies,
  signIn,
];

const failure = signal(null);

function Page() {
  if (failure.value) return html`<main class="starting"><${ErrorNotice} error=${failure.value} /></main>`;
  if (!session.value) return html`<p class="starting">Loading the dashboard …</p>`;
  if (keyNeeded.value) return html`<${signIn.View} />`;
  const found = ROUTES.map((route) => ({ route, parameters: match(route.path, path.value) })).find(
    (one) => one.parameters,
  );
  document.title = found ? `${found.route.title} · redrive` : "Not found · redrive";
  return html`<${Shell} routes=${ROUTES} current=${found?.route}>
    ${
      found
        ? html`<${found.route.View} key=${path.value} ...${found.parameters} />`
        : html`<${Empty} title="There is no such page"><p><a href="/">See what happens now</a></p><//>`
    }
  <//>`;
}

async function start() {
  try {
    await loadSession();
  } catch (error) {
    failure.value = error;
    setTimeout(() => location.reload(), 5000);
  }
}

listenToKeys(Object.fromEntries(ROUTES.filter((one) => one.nav?.key).map((one) => [one.nav.key, one.path])));
const root = document.getElementById("app");
root.textContent = "";
render(html`<${Page} />`, root);
start();
