// Where the reader is: the path names the view, the query string its filters, so that every URL can be shared.

import { computed, signal } from "./html.js";

const here = signal(read());

/** The path, as a signal: "/flows". */
export const path = computed(() => here.value.pathname);

/** The query, as a signal of URLSearchParams. Read it; change it with `setQuery`. */
export const query = computed(() => new URLSearchParams(here.value.search));

function read() {
  return { pathname: location.pathname, search: location.search };
}

/** Go to a URL of this page. `replace` leaves no entry in the history. */
export function navigate(url, { replace = false } = {}) {
  const target = new URL(url, location.href);
  if (target.href === location.href) return;
  const moved = target.pathname !== location.pathname;
  history[replace ? "replaceState" : "pushState"](null, "", target);
  here.value = read();
  if (moved) scrollTo(0, 0);
}

/** The URL of this view with changed filters: a name with null, "" or [] is dropped, a list is repeated. */
export function urlWith(changes, from = here.value.search) {
  const next = new URLSearchParams(from);
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") next.append(name, one);
    }
  }
  const text = next.toString();
  return here.value.pathname + (text ? `?${text}` : "");
}

export function setQuery(changes, options) {
  navigate(urlWith(changes), options);
}

/** Match a path against a pattern such as "/flows/:id": the named parts, or null. */
export function match(pattern, pathname) {
  const wanted = pattern.split("/");
  const parts = pathname.replace(/(.)\/$/, "$1").split("/");
  if (wanted.length !== parts.length) return null;
  const named = {};
  for (const [place, part] of wanted.entries()) {
    if (part.startsWith(":")) {
      try {
        named[part.slice(1)] = decodeURIComponent(parts[place]);
      } catch {
        return null;
      }
    } else if (part !== parts[place]) return null;
  }
  return named;
}

/** The path of a flow's view. */
export const flowPath = (id) => `/flows/${encodeURIComponent(id)}`;

/** Where a batch is shown. */
export const batchPath = (name) => `/batches?${new URLSearchParams({ name })}`;

addEventListener("popstate", () => {
  here.value = read();
});

// Plain links work without code in the views; modified clicks and other sites are left to the browser.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/v1/") || link.hash) return;
  event.preventDefault();
  navigate(link.href);
});
