// How fast the viewer is, with software rendering: time until the page answers, and of each redraw as time is zoomed
// and moved. Usage: node bench/speed.mjs PAGE.html [REDRAWS]; prints a table and exits 1 above the bounds of issue 7.
import { statSync } from "node:fs";
import { launch, open } from "../test/browser.mjs";

const INTERACTIVE_MS = 2_000;
const REDRAW_MS = 50;
const LARGEST_BYTES = 25_000_000;

const [file, redraws = "60"] = process.argv.slice(2);
if (!file) {
  console.error("error: no page\nhint: node bench/speed.mjs PAGE.html, of a recording such as large_recording makes");
  process.exit(1);
}

const browser = await launch();
const results = [];

/** From the start of the navigation until a frame has been drawn after the page was. */
async function interactive(name) {
  const { page, faults, close } = await open(browser, file, { hash: `#page=${name}` });
  const ms = await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))),
  );
  results.push([`${name}: interactive`, ms, INTERACTIVE_MS]);
  if (faults.length > 0) throw new Error(faults.join("\n"));
  return { page, close };
}

/** Times from a key to the frame after its redraw: the scripts' own and the canvas's. */
async function redrawn(page, name, plot) {
  await page.getByRole("group", { name: plot }).first().focus();
  const times = await page.evaluate(async (number) => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const canvas = document.activeElement.querySelector("canvas");
    const context = canvas.getContext("2d");
    const out = [];
    for (let at = 0; at < number; at++) {
      await frame();
      const key = at < number / 6 ? "w" : at % 4 < 2 ? "d" : at % 4 === 2 ? "a" : "s";
      const begin = performance.now();
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      await frame();
      // Reading a pixel waits until all that was asked of the canvas is drawn.
      context.getImageData(0, 0, 1, 1);
      out.push(performance.now() - begin);
    }
    return out.sort((a, b) => a - b);
  }, Number(redraws));
  results.push([`${name}: redraw, median`, times[Math.floor(times.length / 2)], REDRAW_MS]);
  results.push([`${name}: redraw, 90 %`, times[Math.floor(times.length * 0.9)], null]);
}

for (const [name, plot] of [
  ["answer", null],
  ["messages", "messages by time and latency"],
  ["waits", "waits of each thread over time"],
]) {
  const { page, close } = await interactive(name);
  if (plot) await redrawn(page, name, plot);
  await close();
}

// The life of a message is where spans are drawn: they are sought among all of them.
const { page, close } = await open(browser, file, { hash: "#page=messages&message=1:r50000" });
await page.locator(".panel.life").waitFor();
const life = await page.evaluate(
  () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))),
);
results.push(["life of a message: interactive", life, INTERACTIVE_MS]);
await close();
await browser.close();

const size = statSync(file).size;
console.log(`${"page".padEnd(34)}${(size / 1e6).toFixed(1).padStart(9)} MB  (at most ${LARGEST_BYTES / 1e6})`);
for (const [name, ms, bound] of results) {
  console.log(`${name.padEnd(34)}${ms.toFixed(0).padStart(9)} ms${bound ? `  (at most ${bound})` : ""}`);
}
const isSlow = size > LARGEST_BYTES || results.some(([, ms, bound]) => bound !== null && ms > bound);
process.exit(isSlow ? 1 : 0);
