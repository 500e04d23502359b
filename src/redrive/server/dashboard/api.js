// Requests to the HTTP API. Every failure becomes an ApiError whose message says in one line what is wrong.

import { signal } from "./html.js";

/** True once the server has asked for a key: the sign-in view is shown. */
export const keyNeeded = signal(false);

export class ApiError extends Error {
  constructor(status, message, problem = {}) {
    super(message);
    this.status = status;
    /** The field of the body that is wrong, as a JSON pointer. */
    this.pointer = problem.pointer ?? "";
    this.problems = problem.problems ?? [];
  }
}

/** Build a path with a query; null, "" and [] are left out, a list is repeated. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) query.append(name, one);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** The decoded answer to a GET. */
export function get(path, { signal: abort } = {}) {
  return request(path, { signal: abort });
}

/** The decoded answer to a POST, PUT or DELETE with a JSON body. */
export function send(method, path, body) {
  const headers = { "X-Redrive-Request": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return request(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
}

export const post = (path, body = {}) => send("POST", path, body);

async function request(path, options) {
  const response = await reach(path, options);
  if (!response.ok) throw await errorOf(response);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** fetch, with a message for a server that cannot be reached. */
export async function reach(path, options = {}) {
  try {
    return await fetch(path, {
      ...options,
      credentials: "same-origin",
      headers: { Accept: "application/json", ...options.headers },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server cannot be reached.");
  }
}

/** The error that a response stands for, from its problem+json if it has one. */
export async function errorOf(response) {
  if (response.status === 401) keyNeeded.value = true;
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // A proxy answered with a page of its own.
  }
  const detail = problem.detail || problem.title || response.statusText || "no reason was given";
  return new ApiError(response.status, sentence(detail), problem);
}

function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}
