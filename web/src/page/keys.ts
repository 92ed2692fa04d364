// Keys that work on every page. Those of a plot reach the first plot with a time axis if none has the focus.

import type { PageName, Store } from "../state/store";

export interface Keys {
  store: Store;
  pages: PageName[];
  help: () => void;
  theme: () => void;
}

/** Keys that plots know themselves. */
const OF_PLOTS = new Set(["w", "a", "s", "d", "0"]);

/** Handles the keys of the whole page. */
export function listen(keys: Keys): void {
  addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isTyping = target.matches("input, textarea, select");
    if (event.key === "Escape") {
      target.blur();
      keys.store.select([]);
      return;
    }
    if (
      isTyping ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.defaultPrevented ||
      document.querySelector("dialog[open]")
    ) {
      return;
    }
    if (act(keys, event.key)) {
      event.preventDefault();
    }
  });
}

/** Returns whether the key means something. */
function act(keys: Keys, key: string): boolean {
  const page = keys.pages[Number(key) - 1];
  if (page) {
    keys.store.go({ page, view: null });
    return true;
  }
  const acts: Record<string, () => void> = {
    "/": () => document.querySelector<HTMLInputElement>("main input[type=search]")?.focus(),
    "?": keys.help,
    t: keys.theme,
    f: () => keys.store.filter(false),
    x: () => keys.store.filter(true),
    b: () => history.back(),
  };
  const given = acts[key];
  given?.();
  if (!given && OF_PLOTS.has(key)) {
    const plot = document.querySelector("main .plot.zooms");
    plot?.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
    return plot !== null;
  }
  return given !== undefined;
}
