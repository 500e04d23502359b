// Measures inside the page, so that what is measured is what a reader sees.

(() => {
  const PATIENCE = 30_000;
  const nextFrame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));

  /** The milliseconds since the page was asked for, once the test holds and a frame that shows it is painted. */
  const when = async (test) => {
    const began = performance.now();
    for (;;) {
      await nextFrame();
      if (test()) return performance.now();
      if (performance.now() - began > PATIENCE) throw new Error(`never shown: ${test}; ${document.body.innerText.slice(0, 300)}`);
    }
  };

  const main = (selector) => document.querySelectorAll(`main ${selector}`);
  const ready = {
    now: () => main(".figures").length > 0 && main(".needs li").length > 0,
    flows: () => main(".loading").length === 0 && (main("tbody tr").length > 0 || main(".empty").length > 0),
    flow: () => main(".waterfall .segment").length > 0 && main("#attempts tbody tr").length > 0,
  };

  /** How long it takes from a change of the query until the list shows what it asks for. */
  const filtered = async (name, value, change) => {
    const began = performance.now();
    change();
    const asked = () => new URLSearchParams(location.search).get(name) === value;
    return (await when(() => asked() && ready.flows())) - began;
  };

  const longTasks = [];
  new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: "longtask" });

  window.probes = {
    shown: (view) => when(ready[view]),
    /** When the status of the flow is shown: epoch milliseconds. */
    status: (wanted) => when(() => main(".headline .status")[0]?.textContent.trim() === wanted).then(() => Date.now()),
    row: (id) => when(() => main(`tbody a[href$="${id}"]`).length > 0).then(() => Date.now()),
    /** Follow a link to this path. */
    go: async (path, view) => {
      const began = performance.now();
      const link = document.createElement("a");
      link.href = path;
      document.body.append(link);
      link.click();
      link.remove();
      await nextFrame();
      return (await when(ready[view])) - began;
    },
    tab: (title, name, value) =>
      filtered(name, value, () => [...main(".tabs a")].find((one) => one.textContent === title).click()),
    search: (text) =>
      filtered("text", text, () => {
        const [field] = main("[data-search]");
        field.value = text;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      }),
    field: (name, value) =>
      filtered(name, value, () => {
        const [form] = main(".more-filters form");
        form.elements[name].value = value;
        form.requestSubmit();
      }),
    /** Frames a second, the longest gap between two, and the longest task, while the page is left alone. */
    watch: async (seconds) => {
      longTasks.length = 0;
      const began = performance.now();
      let [frames, last, gap] = [0, began, 0];
      while (last - began < seconds * 1000) {
        const at = await new Promise(requestAnimationFrame);
        gap = Math.max(gap, at - last);
        last = Math.max(last, at);
        frames += 1;
      }
      await nextFrame();
      return { frames: frames / ((last - began) / 1000), gap, task: Math.max(0, ...longTasks) };
    },
  };
})();
