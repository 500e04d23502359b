// What this browser remembers: the theme, and the name that an operator gives.

/** The remembered text, or `otherwise`. */
export function remembered(name, otherwise = "") {
  try {
    return localStorage.getItem(`redrive.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, text) {
  try {
    if (text) localStorage.setItem(`redrive.${name}`, text);
    else localStorage.removeItem(`redrive.${name}`);
  } catch {
    // Storage is switched off: nothing is remembered.
  }
}
