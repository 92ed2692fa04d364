// Names come from anywhere: markup, terminal escapes, marks that reorder text, and very long ones are shown as text.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { golden, madeOf, page as made, scratch, textOf } from "./recordings.mjs";

const MARKUP = "</script><img src=x onerror=alert(1)><b>";
const ESCAPES = "\u001b]52;c;ZXZpbA==\u0007\u001b[31m";
const BIDI = "safe\u202eexe.evil\u2066";
const LONG = "x".repeat(10_240);

let browser, file;
before(async () => {
  browser = await launch();
  const folder = join(scratch, "hostile");
  mkdirSync(folder);
  const write = (name, text) => writeFileSync(join(folder, name), text);
  const rows = (name) => textOf("golden_waits/recording", name).trim().split("\n").map((line) => JSON.parse(line));
  const lines = (rows) => rows.map((row) => JSON.stringify(row)).join("\n");
  write("inherits.txt", `${golden("golden_waits/recording")}\n`);
  const header = JSON.parse(textOf("golden_waits/recording", "header.json"));
  write("header.json", JSON.stringify({ ...header, host: BIDI, arguments: ["whylat", MARKUP, ESCAPES, LONG] }));
  const processes = rows("processes.jsonl").map((row, at) => ({ ...row, comm: [MARKUP, BIDI][at % 2], exe: LONG }));
  write("processes.jsonl", lines(processes));
  const symbols = rows("symbols.jsonl").map((row) => ({ ...row, function: `${MARKUP}${ESCAPES}` }));
  write("symbols.jsonl", lines(symbols));
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
