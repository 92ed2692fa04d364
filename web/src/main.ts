// Reads the data, then shows the page that the URL's fragment names.

import { read } from "./data/side";
import { el, show } from "./dom";
import { Frame } from "./page/frame";

async function start(): Promise<void> {
  const app = document.getElementById("app");
  const data = document.getElementById("data");
  if (!app || !data) {
    return;
  }
  try {
    const book = await read((data.textContent ?? "").trim());
    data.remove();
    new Frame(app, book);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    show(app, el("p.wait", { role: "alert" }, `The data in this page cannot be read: ${text}`));
  }
}

void start();
