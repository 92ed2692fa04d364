// Names come from anywhere: markup, terminal escapes, marks that reorder text, and very long ones are shown as text.
import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { madeOf, page as made, scratch } from "./recordings.mjs";

const MARKUP = "</script><img src=x onerror=alert(1)><b>";
const ESCAPES = "\u001b]52;c;ZXZpbA==\u0007\u001b[31m";
const BIDI = "safe\u202eexe.evil\u2066";
const LONG = "x".repeat(10_240);

let browser, file;
before(async () => {
  browser = await launch();
  const folder = join(scratch, "hostile");
  cpSync(fileURLToPath(new URL("../../tests/golden_waits/recording", import.meta.url)), folder, { recursive: true });
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const text = readFileSync(path, "utf8");
    if (name === "header.json") {
      const header = JSON.parse(text);
      writeFileSync(path, JSON.stringify({ ...header, host: BIDI, arguments: ["whylat", MARKUP, ESCAPES, LONG] }));
    } else if (name === "processes.jsonl") {
      const rows = text
        .trim()
        .split("\n")
        .map((line, at) => ({ ...JSON.parse(line), comm: [MARKUP, BIDI][at % 2], exe: LONG }));
      writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
    } else if (name === "symbols.jsonl") {
      const rows = text
        .trim()
        .split("\n")
        .map((line) => ({ ...JSON.parse(line), function: `${MARKUP}${ESCAPES}` }));
      writeFileSync(path, rows.map((row) => JSON.stringify(row)).join("\n"));
    }
  }
  file = made(madeOf(folder, join(scratch, "hostile.whylat")));
});
after(() => browser.close());

test("hostile names are shown as text", async () => {
  const source = readFileSync(file, "utf8");
  assert.ok(!source.includes(MARKUP));
  for (const name of ["answer", "connections", "waits", "messages"]) {
    const { page, faults, close } = await open(browser, file, { hash: `#page=${name}` });
    let alerts = 0;
    page.on("dialog", (dialog) => {
      alerts += 1;
      void dialog.dismiss();
    });
    const text = await page
      .locator("body")
      .evaluate(
        (body) =>
          `${body.textContent}${[...body.querySelectorAll("*")].flatMap((it) => [...it.attributes].map((attribute) => attribute.value)).join("\n")}`,
      );
    assert.doesNotMatch(text, /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/, name);
    assert.equal(await page.locator("img").count(), 0);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide`);
    assert.equal(alerts, 0);
    assert.deepEqual(faults, [], name);
    await close();
  }
  const { page, close } = await open(browser, file, { hash: "#page=answer" });
  const words = await page.locator("main").innerText();
  assert.ok(words.includes(MARKUP), "the markup is not shown");
  assert.ok(words.includes("\\u{202e}"), "the mark is not shown");
  assert.ok(words.includes(LONG), "the long argument is not shown");
  const box = await page.locator(".long").boundingBox();
  assert.ok(box.height < 120, `the command line takes ${box.height} pixels`);
  await close();
});
