// Keys and gestures, in a dialog.

import { button, el } from "../dom";

const KEYS: [string[], string][] = [
  [["1", "–", "6"], "Go to a page"],
  [["/"], "Search in the table"],
  [["w", "s"], "Zoom in and out of the time axis (also ↑ ↓, or Ctrl and the wheel, on a plot)"],
  [["a", "d"], "Move along the time axis (also ← →)"],
  [["0"], "Show all of the time axis (also a double click)"],
  [["f"], "Filter in: show only what is selected"],
  [["x"], "Filter out: show all but what is selected"],
  [["b"], "Back: undo the last step"],
  [["Esc"], "Clear the selection"],
  [["t"], "Light or dark"],
  [["?"], "This help"],
];

/** Returns the dialog with keys and gestures. */
export function helpDialog(): HTMLDialogElement {
  const entries = KEYS.flatMap(([keys, text]) => [
    el("dt", {}, ...keys.flatMap((key) => (key === "–" ? [" – "] : [el("kbd", {}, key), " "]))),
    el("dd", {}, text),
  ]);
  const dialog = el(
    "dialog",
    { "aria-label": "Help" },
    el("h2", {}, "Keys and gestures"),
    el(
      "p",
      {},
      "Drag over a plot to select a time and a range of latencies or durations. Click in a table to select a row. A selection can become a filter: it holds on every page. The address of the page contains all of this: copy it to share the view.",
    ),
    el("dl", {}, ...entries),
    button("Close", () => dialog.close()),
  );
  return dialog;
}
