// The first page: the answer is there, without scrolling, for every finding that whylat knows.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, navigate, open } from "./browser.mjs";
import { fired, live, page as made, recording, whylat } from "./recordings.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

test("every finding is on the screen as it opens", async () => {
  const folders = fired();
  assert.ok(folders.length >= 17, `only ${folders.length} golden cases`);
  for (const folder of folders) {
    const path = recording(folder);
    const report = JSON.parse(whylat("report", "--format", "json", path));
    const { page, faults, close } = await open(browser, made(path));
    const first = report.findings.find((finding) => finding.is_answer) ?? report.findings[0];
    assert.ok(first, `${folder} finds nothing`);
    const words = await page.locator("main").innerText();
    assert.ok(words.includes(first.headline), `${folder}: ${first.headline}`);
    const box = await page.locator("details.finding").first().boundingBox();
    assert.ok(box && box.y < 250, `${folder}: the first finding begins at ${box?.y}`);
    // Information is one line, unless the title speaks of it; a click opens it.
    if (first.severity === "info" && !first.is_answer) await page.locator("details.finding > summary").first().click();
    await page.locator("details.finding .do").first().waitFor();
    const opened = await page.locator("main").innerText();
    for (const advice of first.advice) {
      assert.ok(opened.includes(advice.replaceAll("`", "")), `${folder}: ${advice}`);
    }
    assert.deepEqual(faults, [], folder);
    await close();
  }
});

test("recordings of planted faults open", { skip: live().length === 0 && "make viewer-faults records them" }, async () => {
  for (const path of live()) {
    const { findings } = JSON.parse(whylat("report", "--format", "json", path));
    const { page, faults, close } = await open(browser, made(path));
    for (const link of ["Answer", "Connections", "Waits", "Messages"]) {
      await navigate(page, () => page.getByRole("link", { name: link }).click());
      assert.ok((await page.locator("main").innerText()).length > 0, `${path}: ${link}`);
    }
    await navigate(page, () => page.getByRole("link", { name: "Answer" }).click());
    if (findings.length > 0) {
      const box = await page.locator("details.finding").first().boundingBox();
      assert.ok(box && box.y < 250, `${path}: the first finding begins at ${box?.y}`);
      assert.ok((await page.locator("main").innerText()).includes(findings[0].headline), path);
    }
    assert.deepEqual(faults, [], path);
    await close();
  }
});

test("a recording that was never closed says so", async () => {
  const { page, faults, close } = await open(browser, made(recording("golden/report/not_closed")));
  const words = await page.locator("main").innerText();
  assert.match(words, /the end is missing/);
  assert.deepEqual(faults, []);
  await close();
});
