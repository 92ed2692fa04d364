// The pictures of the viewer in docs/img. Usage: node shots.mjs OUTPUT REQUESTS.html ANSWER.html CONNECTIONS.html WAITS.html
// MESSAGES.html MESSAGE, with the page for each picture, and the id of a message.
import { join } from "node:path";
import { launch, open } from "./test/browser.mjs";

const [output, requests, answer, connections, waits, messages, id] = process.argv.slice(2);
if (!id) {
  console.error(
    "error: arguments are missing\nhint: node shots.mjs OUTPUT REQUESTS.html ANSWER.html CONNECTIONS.html WAITS.html MESSAGES.html MESSAGE",
  );
  process.exit(1);
}
const SMALL = { width: 1280, height: 720 };
const LARGE = { width: 1920, height: 1080 };
const pictures = [
  ["viewer-requests", requests, "#page=requests", { width: 1440, height: 1530, theme: "light" }],
  ["viewer-answer", answer, "#page=answer", { ...SMALL, theme: "light" }],
  ["viewer-connections", connections, "#page=connections", { ...SMALL, theme: "dark" }],
  ["viewer-waits", waits, "#page=waits", { ...LARGE, theme: "dark" }],
  ["viewer-messages", messages, `#page=messages&message=${id}`, { ...LARGE, theme: "light" }],
];
const browser = await launch();
for (const [name, file, hash, options] of pictures) {
  const { page, faults, close } = await open(browser, file, { hash, ...options });
  if (faults.length > 0) throw new Error(faults.join("\n"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await page.screenshot({ path: join(output, `${name}.png`) });
  await close();
}
await browser.close();
