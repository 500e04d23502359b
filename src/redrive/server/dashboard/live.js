// Live resources: a GET endpoint as an event stream of whole snapshots, so that a stream which drops loses nothing.

import { useEffect, useMemo, signal } from "./html.js";
import { errorOf, get, reach } from "./api.js";
import { heardFromServer } from "./clock.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
const WITHOUT_STREAM = 2000;
const SILENCE = 40000;
const SHOWN_EVERY = 100;

/** The state of the streams of this page, as a signal: "live", "connecting", "reconnecting", "paused",
 * or "none" while the view needs no stream. */
export const connection = signal("none");

/** @type {Map<string, Live>} */
const open = new Map();

/**
 * Keep a resource up to date while the calling component is shown. `path` may be null: nothing is read.
 * @returns {{data: any, error: Error | null, state: string}} data stays as it was while the stream reconnects.
 */
export function useLive(path) {
  const nothing = useMemo(() => signal({ data: null, error: null, state: "connecting" }), []);
  const live = path === null ? null : (open.get(path) ?? remember(path));
  useEffect(() => {
    if (!live) return undefined;
    live.join();
    return () => live.leave();
  }, [live]);
  return (live?.current ?? nothing).value;
}

/** Ask for a resource at once, for instance after an action changed it. */
export function refresh(prefix) {
  for (const [path, live] of open) if (path.startsWith(prefix)) live.restart();
}

function remember(path) {
  const live = new Live(path);
  open.set(path, live);
  return live;
}

class Live {
  constructor(path) {
    this.path = path;
    this.readers = 0;
    this.lastId = "";
    this.failures = 0;
    this.abort = null;
    this.timer = 0;
    /** The latest snapshot that came, while it waits to be shown. */
    this.latest = null;
    this.turn = 0;
    this.shownAt = -SHOWN_EVERY;
    this.current = signal({ data: null, error: null, state: "connecting" });
  }

  join() {
    this.readers += 1;
    if (this.readers === 1) {
      this.start();
      report();
    }
  }

  leave() {
    this.readers -= 1;
    // A view that is drawn anew leaves and joins in one turn.
    setTimeout(() => {
      if (this.readers > 0) return;
      this.stop();
      if (open.get(this.path) === this) open.delete(this.path);
      report();
    }, 0);
  }

  restart() {
    this.stop();
    this.lastId = "";
    this.start();
  }

  start() {
    clearTimeout(this.timer);
    if (document.hidden && this.current.value.data !== null) this.set({ state: "paused" });
    else if (!this.abort) this.follow();
  }

  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.turn);
    this.turn = 0;
    this.latest = null;
    this.abort?.abort();
    this.abort = null;
  }

  set(changes) {
    this.current.value = { ...this.current.value, ...changes };
    report();
  }

  async follow() {
    const abort = new AbortController();
    this.abort = abort;
    let pause = FIRST_PAUSE;
    try {
      const headers = { Accept: "text/event-stream" };
      if (this.lastId) headers["Last-Event-ID"] = this.lastId;
      const response = await reach(this.path, { headers, signal: abort.signal });
      if (!response.ok) throw await errorOf(response);
      if ((response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")) {
        await readEvents(response.body, (event) => this.take(event), abort).finally(() => this.catchUp());
      } else {
        this.show(await response.json());
        pause = WITHOUT_STREAM;
      }
      this.failures = 0;
    } catch (error) {
      if (this.abort !== abort) return;
      pause = await this.failed(error, abort);
    }
    if (this.abort !== abort) return;
    this.abort = null;
    if (pause !== WITHOUT_STREAM) this.set({ state: "reconnecting" });
    if (this.readers > 0 && pause !== null) this.timer = setTimeout(() => this.start(), pause);
  }

  /** Note what went wrong; return how long to wait, or null if asking again is of no use. */
  async failed(error, abort) {
    this.failures += 1;
    if ([400, 401, 403, 404, 422].includes(error.status)) {
      this.set({ data: null, error, state: "failed" });
      return null;
    }
    if (error.status === 503) {
      // All streams are taken, or the store is away: a single answer is better than none.
      try {
        this.show(await get(this.path, { signal: abort.signal }));
        return WITHOUT_STREAM;
      } catch (second) {
        error = second;
      }
    }
    this.set({ error: this.current.value.data === null ? error : null, state: "reconnecting" });
    return Math.min(FIRST_PAUSE * 2 ** (this.failures - 1), LONGEST_PAUSE) * (0.75 + Math.random() / 2);
  }

  take(event) {
    if (event.type === "problem") {
      this.catchUp();
      this.set({ state: "reconnecting" });
    }
    if (event.type !== "snapshot") return;
    // Each is whole, so of many that come together the last one is enough: nobody reads faster than this.
    this.latest = event;
    const wait = this.shownAt + SHOWN_EVERY - performance.now();
    if (wait <= 0) this.catchUp();
    else if (!this.turn) this.turn = setTimeout(() => this.catchUp(), wait);
  }

  catchUp() {
    clearTimeout(this.turn);
    this.turn = 0;
    const event = this.latest;
    if (!event) return;
    this.latest = null;
    this.shownAt = performance.now();
    this.lastId = event.id || this.lastId;
    this.show(JSON.parse(event.data));
  }

  show(data) {
    if (data?.at) heardFromServer(data.at);
    this.failures = 0;
    this.set({ data, error: null, state: "live" });
  }
}

/** Read server-sent events until the stream ends; comments are events without a type. */
async function readEvents(body, take, abort) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const silence = setTimeout(() => reader.cancel(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(silence));
    if (done || abort.signal.aborted) return;
    const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) take(parseEvent(block));
  }
}

function parseEvent(block) {
  const event = { id: "", type: "", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = /^([a-z]*): ?(.*)$/s.exec(line) ?? [];
    if (name === "id") event.id = value;
    else if (name === "event") event.type = value;
    else if (name === "data") event.data += value;
  }
  return event;
}

function report() {
  const states = [...open.values()].filter((one) => one.readers > 0).map((one) => one.current.value.state);
  connection.value =
    ["reconnecting", "connecting", "paused"].find((one) => states.includes(one)) ?? (states.length ? "live" : "none");
}

// A hidden page gives its connections back: browsers have few for each server.
document.addEventListener("visibilitychange", () => {
  for (const live of open.values()) {
    if (!document.hidden) live.start();
    else if (live.readers > 0 && live.current.value.data !== null) {
      live.stop();
      live.set({ state: "paused" });
    }
  }
});
