// Keys: `/` searches, `j` and `k` move between rows, `?` helps, `g` and a letter go to a view.

import { signal } from "./html.js";
import { navigate } from "./router.js";

/** Whether the list of keys is shown, as a signal. */
export const helpShown = signal(false);

let going = 0;

/** Listen to keys. `destinations`: letter -> path. */
export function listenToKeys(destinations) {
  addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (going && Date.now() - going < 1500 && destinations[event.key]) {
      going = 0;
      event.preventDefault();
      document.activeElement?.blur();
      navigate(destinations[event.key]);
    } else if (event.key === "g") {
      going = Date.now();
    } else if (event.key === "/") {
      event.preventDefault();
      search();
    } else if (event.key === "?") {
      event.preventDefault();
      helpShown.value = true;
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    }
  });
}

function isTyping(target) {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.matches("input:not([type=checkbox]), textarea, select"))
  );
}

function search() {
  const field = document.querySelector("[data-search]");
  if (field) field.focus();
  else navigate("/flows?focus=search");
}

function move(by) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.checkVisibility());
  if (!rows.length) return;
  const inRow = document.activeElement?.closest("tr, li")?.querySelector("[data-row]");
  const place = rows.indexOf(inRow ?? document.activeElement);
  const next = place < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, place + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}
