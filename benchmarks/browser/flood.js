// Replaces each event stream by one that sends sixty snapshots a second, each of them another one.

(() => {
  const EVERY = 1000 / 60;
  const KINDS = 60;
  const real = window.fetch;
  const encoder = new TextEncoder();
  window.snapshots = 0;

  function varied(path, seen, n) {
    if (path.startsWith("/v1/overview")) return { ...seen, dead: n + 1, retrying: seen.retrying + n };
    if (path.includes("/explain")) return { ...seen, headline: `${seen.headline} (${n})` };
    if (!seen.flows?.length) return { ...seen };
    // One flow is new, one is gone, and all others move on.
    const { flows } = seen;
    const moved = flows.map((_, place) => flows[(place + n) % flows.length]);
    return { ...seen, flows: [{ ...flows[0], id: `${flows[0].id.slice(0, -4)}f${100 + n}`, status: "running" }, ...moved.slice(1)] };
  }

  window.fetch = async (path, options = {}) => {
    if (!(options.headers?.Accept ?? "").includes("text/event-stream")) return real(path, options);
    const response = await real(path, { ...options, headers: { Accept: "application/json" } });
    if (!response.ok) return response;
    const seen = await response.json();
    const events = [...Array(KINDS).keys()].map((n) =>
      encoder.encode(`id: ${n}\nevent: snapshot\ndata: ${JSON.stringify(varied(path, seen, n))}\n\n`),
    );
    let timer = 0;
    let n = 0;
    const body = new ReadableStream({
      start(stream) {
        timer = setInterval(() => {
          stream.enqueue(events[n++ % KINDS]);
          window.snapshots += 1;
        }, EVERY);
        options.signal?.addEventListener("abort", () => {
          clearInterval(timer);
          stream.error(new DOMException("aborted", "AbortError"));
        });
      },
      cancel: () => clearInterval(timer),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
})();
