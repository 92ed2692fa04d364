// No serious fault for those who use a screen reader or the keyboard: axe-core on every page, in both themes.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { page as made, recording, scratch, whylat } from "./recordings.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

const PAGES = [
  ["golden_requests/recording", ["requests", "requests&request=101:q40&select=time:0:1000000,duration:1000:9000000"]],
  ["golden/nagle_delayed_ack/fires", ["answer", "connections"]],
  ["golden_waits/recording", ["waits"]],
  ["golden_messages/recording", ["messages&message=1:r50256", "messages&in=conn:1&select=time:0:1000000"]],
];

async function faultsOf(page) {
  // The page's own policy keeps foreign scripts out; this one comes in by the debugger.
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], preload: false }));
  const serious = result.violations.filter((fault) => fault.impact === "serious" || fault.impact === "critical");
  return serious.map(
    (fault) =>
      `${fault.id}: ${fault.nodes
        .slice(0, 3)
        .map((node) => `${node.html} ${node.failureSummary}`)
        .join(" | ")}`,
  );
}

test("no serious fault on any page", async () => {
  for (const [folder, pages] of PAGES) {
    const file = made(recording(folder));
    for (const name of pages) {
      for (const theme of ["light", "dark"]) {
        const { page, close } = await open(browser, file, { hash: `#page=${name}`, theme });
        assert.deepEqual(await faultsOf(page), [], `${folder} ${name} ${theme}`);
        await close();
      }
    }
  }
});

test("nor where two recordings are compared, nor in the help", async () => {
  const file = `${scratch}/compared.html`;
  whylat(
    "diff",
    "--format",
    "html",
    "-o",
    file,
    recording("golden_messages/recording"),
    recording("golden_messages/recording"),
  );
  const { page, close } = await open(browser, file);
  assert.deepEqual(await faultsOf(page), []);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  assert.deepEqual(await faultsOf(page), []);
  await close();
});
