// Runs before the page is painted, so that a chosen theme does not flash. Modules come too late for that.
(() => {
  try {
    const theme = localStorage.getItem("redrive.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is switched off: the theme of the system applies.
  }
})();
