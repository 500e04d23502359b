// A plot by uPlot, loaded only when a view draws one.

import { html, useEffect, useRef } from "../html.js";

/**
 * data: uPlot's columns, [[x...], [y...], ...]; options: uPlot's, without a size; label: what the plot shows, in words,
 * for readers that do not see it. The same figures belong in a table beside it.
 */
export function Plot({ data, options, label, height = 220 }) {
  const frame = useRef(null);
  useEffect(() => {
    let plot = null;
    let gone = false;
    const resized = new ResizeObserver(([entry]) =>
      plot?.setSize({ width: Math.floor(entry.contentRect.width), height }),
    );
    import("../vendor/uplot.js").then(({ default: uPlot }) => {
      if (gone) return;
      plot = new uPlot({ ...options, width: frame.current.clientWidth, height }, data, frame.current);
      resized.observe(frame.current);
    });
    return () => {
      gone = true;
      resized.disconnect();
      plot?.destroy();
    };
  }, [data, options, height]);
  return html`<div class="plot" ref=${frame} role="img" aria-label=${label}></div>`;
}

/** A colour of the theme, such as "accent" or "bad", for what is drawn on a canvas. */
export function colour(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
