// What every view is written with: `html` tagged templates, hooks and signals. All values become text nodes or attributes.

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, render } from "./vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { computed, effect, signal, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";

export const html = htm.bind(h);
