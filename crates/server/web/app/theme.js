// Light or dark, before the first paint: this is the one script that is no module, so that the page never flashes in the other theme.
// The choice is "system", "light" or "dark"; what the stylesheet sees on <html data-theme> is always one of the last two.
(() => {
  const key = "rawloop.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  let choice = "system";
  try {
    choice = localStorage.getItem(key) || "system";
  } catch {
    // Storage is closed to this page: the system's choice holds.
  }
  const apply = () => {
    document.documentElement.dataset.theme = choice === "system" ? (system.matches ? "dark" : "light") : choice;
    document.dispatchEvent(new CustomEvent("theme"));
  };
  system.addEventListener("change", apply);
  window.rawloopTheme = {
    get choice() {
      return choice;
    },
    set choice(value) {
      choice = value;
      try {
        localStorage.setItem(key, value);
      } catch {
        // It holds until the page is closed.
      }
      apply();
    },
  };
  apply();
})();
