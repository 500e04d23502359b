// Who is signed in, and what their key's role allows.

import { signal } from "./html.js";
import { get, keyNeeded, post, send } from "./api.js";

const ROLES = ["read", "read:payload", "operate", "admin"];

/** The answer of GET /v1/session, as a signal; null until it is known. */
export const session = signal(null);

export async function loadSession() {
  session.value = await get("/v1/session");
  keyNeeded.value = session.value.keys_required && !session.value.signed_in;
}

export async function signIn(key) {
  await post("/v1/session", { key });
  await loadSession();
}

export async function signOut() {
  await send("DELETE", "/v1/session");
  await loadSession();
}

/** Whether the reader may do what needs this role. Actions that nobody may do here are not offered. */
export function may(role) {
  const known = session.value;
  if (!known) return false;
  if (known.read_only && ROLES.indexOf(role) >= ROLES.indexOf("operate")) return false;
  return ROLES.indexOf(known.role) >= ROLES.indexOf(role);
}

/** Whether the server shows payloads to the reader. */
export const seesPayloads = () => Boolean(session.value?.payloads);
