// What a user does to look around: select, filter, go back, search, keys, theme, links.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, navigate, open } from "./browser.mjs";
import { golden, madeOf, page as made, recording, scratch, whylat } from "./recordings.mjs";

let browser, messages, waits, associated, stalled;
before(async () => {
  browser = await launch();
  messages = made(recording("golden_messages/recording"));
  waits = made(recording("golden_waits/recording"));
  associated = made(recording("golden_waits/associated"));
  stalled = made(recording("golden/nagle_delayed_ack/fires"));
});
after(() => browser.close());

const hash = (page) => page.evaluate(() => decodeURIComponent(location.hash));

/** Where a plot is: it has its size from the first frame in which it is drawn. */
async function boxOf(plot) {
  const canvas = plot.locator("canvas[style*=height]").first();
  await canvas.waitFor();
  return canvas.boundingBox();
}

async function drag(page, plot, from, to) {
  const box = await boxOf(plot);
  await page.mouse.move(box.x + box.width * from[0], box.y + box.height * from[1]);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to[0], box.y + box.height * to[1], { steps: 4 });
  await page.mouse.up();
}

const balloons = (page) => page.getByRole("group", { name: "messages by time and latency" });
const shown = async (page) =>
  Number(
    (await page.locator("main .panel header .soft", { hasText: /^[\d,]+ messages/ }).first().innerText())
      .match(/^([\d,]+) messages/)[1]
      .replaceAll(",", ""),
  );

/** A place of a plot at which the pointer meets something. */
async function meet(page, plot) {
  const box = await boxOf(plot);
  for (let y = 12; y < box.height - 34; y += 6) {
    for (let x = 70; x < box.width - 16; x += 6) {
      await page.mouse.move(box.x + x, box.y + y);
      if (await page.locator(".tip").isVisible()) return;
    }
  }
  assert.fail("nothing in the plot answers to the pointer");
}

test("a brush selects, filters in and out, and goes back", async () => {
  const { page, faults, close } = await open(browser, messages, { hash: "#page=messages" });
  const all = await shown(page);
  await drag(page, balloons(page), [0.15, 0.1], [0.55, 0.8]);
  assert.match(await hash(page), /select=time:\d+:\d+,latency:\d+:\d+/);
  await page.getByRole("button", { name: "Filter in" }).click();
  const within = await shown(page);
  assert.ok(within > 0 && within < all, `${within} of ${all}`);
  await navigate(page, () => page.getByRole("button", { name: "Back" }).click());
  assert.doesNotMatch(await hash(page), /in=/);
  assert.equal(await shown(page), all);
  await drag(page, balloons(page), [0.15, 0.1], [0.55, 0.8]);
  await page.keyboard.press("x");
  assert.match(await hash(page), /out=/);
  assert.equal(await shown(page), all - within);
  assert.deepEqual(faults, []);
  await close();
});

test("a clicked balloon shows its life, and the link shows it again", async () => {
  const { page, faults, close } = await open(browser, messages, { hash: "#page=messages" });
  await meet(page, balloons(page));
  const tip = await page.locator(".tip").innerText();
  await page.mouse.down();
  await page.mouse.up();
  const title = page.locator(".panel.life h2");
  await title.waitFor();
  const id = (await title.innerText()).match(/Message (\S+):/)[1];
  assert.ok(tip.includes(id), `${tip} is not ${id}`);
  const url = page.url();
  await close();
  const again = await open(browser, messages, { hash: url.slice(url.indexOf("#")) });
  assert.match(await again.page.locator(".panel.life h2").innerText(), new RegExp(id.replaceAll("+", "\\+")));
  assert.deepEqual([...faults, ...again.faults], []);
  await again.close();
});

test("CPU activity of a message is drawn, and shown as a table", async () => {
  const { page, faults, close } = await open(browser, messages, { hash: "#page=messages&message=1:r50256" });
  const story = JSON.parse(
    whylat("report", "--message", "1:r50256", "--format", "json", recording("golden_messages/recording")),
  );
  const panel = page.locator(".panel.life");
  await panel.getByText("as a table").first().click();
  const words = await panel.locator("details[open] table").first().innerText();
  for (const name of ["last segment arrived", "call done"]) assert.ok(words.includes(name), name);
  const functions = (story.meanwhile ?? []).map((doing) => doing.name).filter(Boolean);
  assert.ok(functions.length > 0);
  for (const name of functions) assert.ok(words.includes(name), `${name} in ${words}`);
  assert.deepEqual(faults, []);
  await close();
});

test("CPU activity during the shown messages is a flame graph", async () => {
  const { page, faults, close } = await open(browser, messages, { hash: "#page=messages" });
  await page.getByText("CPU activity during all messages").waitFor();
  const graph = page.getByRole("img", { name: /CPU activity/ });
  await graph.waitFor();
  const whole = await graph.locator("i").count();
  assert.ok(whole > 3, `${whole} boxes`);
  assert.match(await graph.innerText(), /CPU \d/);
  await close();
  const one = await open(browser, messages, { hash: "#page=messages&in=conn:1" });
  await one.page.getByText(/CPU activity during these \d+ messages?/).waitFor();
  await one.page.locator(".flame, details[open] p.soft").first().waitFor();
  assert.deepEqual([...faults, ...one.faults], []);
  await one.close();
});

test("a connection as filter holds on every page", async () => {
  const { page, close } = await open(browser, messages, { hash: "#page=messages&in=conn:1" });
  const one = await shown(page);
  await navigate(page, () => page.getByRole("link", { name: "Connections" }).click());
  await page.locator("main h2", { hasText: /^1 of / }).first().waitFor();
  await navigate(page, () => page.getByRole("link", { name: "Messages" }).click());
  assert.equal(await shown(page), one);
  await page.getByRole("button", { name: /Remove the filter/ }).click();
  assert.ok((await shown(page)) > one);
  await close();
});

test("waits: a click on a thread selects the object, rows are found and sorted", async () => {
  const { page, faults, close } = await open(browser, waits, { hash: "#page=waits" });
  const report = JSON.parse(
    whylat("report", "--by", "object", "--format", "json", recording("golden_waits/recording")),
  );
  assert.equal(await page.locator("table[class] tr, main .scroll tbody tr").first().isVisible(), true);
  assert.ok((await page.locator("main").innerText()).includes(`${report.groups.length} objects`));
  const plot = page.getByRole("group", { name: "waits of each thread over time" });
  await meet(page, plot);
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes("object="));
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("futex");
  const rows = page.locator("main .scroll tbody tr");
  const names = await rows.allInnerTexts();
  assert.ok(names.length > 0 && names.length < report.groups.length);
  for (const name of names) assert.match(name, /futex/);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("button", { name: "Waits", exact: true }).click();
  const counts = (await page.locator("main .scroll tbody tr td:nth-child(3)").allInnerTexts()).map((text) =>
    Number(text.replaceAll(",", "")),
  );
  assert.deepEqual(
    counts,
    [...counts].sort((a, b) => b - a),
  );
  assert.deepEqual(faults, []);
  await close();
});

/** The page of 40 waits of 1 ms and of two that took 500 ms each, for one file. */
function fewSlowWaits() {
  const folder = join(scratch, "few-slow");
  mkdirSync(folder);
  writeFileSync(join(folder, "inherits.txt"), `${golden("golden_waits/recording")}\n`);
  const rows = Array.from({ length: 42 }, (_, index) => {
    const start = 5_000_001_000_000 + index * 1e9;
    const woken = start + (index % 21 === 20 ? 500e6 : 1e6);
    return JSON.stringify({
      end_ns: woken, start_ns: start, woken_ns: woken, tid: 4242, pid: 4242, kind: "file", object: 99, fd: 7,
      syscall: 0, waker: "unseen", uninterruptible: false, cpu: 1,
    });
  });
  writeFileSync(join(folder, "waits.jsonl"), rows.join("\n"));
  madeOf(folder, `${folder}.whylat`);
  return made(`${folder}.whylat`);
}

test("slow waits that are too few for a population are named", async () => {
  const { page, faults, close } = await open(browser, fewSlowWaits(), { hash: "#page=waits&object=file 99" });
  const text = await page.locator("main").innerText();
  assert.match(text, /2 slow waits of about (499|50\d) ms; the others took at most about 1\.\d+ ms/);
  assert.match(text, /Fewer than 12 are too few to show two kinds of waits/);
  assert.deepEqual(faults, []);
  await close();
});

test("keys zoom, move, change page and theme, and ask for help", async () => {
  const { page, faults, close } = await open(browser, waits, { hash: "#page=waits" });
  const view = async () => ((await hash(page)).match(/view=(-?\d+):(-?\d+)/) ?? []).slice(1).map(Number);
  await page.keyboard.press("w");
  const [from, to] = await view();
  assert.ok(to > from);
  await page.keyboard.press("d");
  const [moved] = await view();
  assert.ok(moved > from, `${moved} after ${from}`);
  await page.keyboard.press("0");
  assert.deepEqual(await view(), []);
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("1");
  assert.match(await hash(page), /page=answer/);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.keyboard.press("t");
  assert.notEqual(await ground(), light);
  assert.deepEqual(faults, []);
  await close();
});

test("two recordings lie side by side", async () => {
  const file = `${scratch}/pair.html`;
  whylat(
    "diff",
    "--format",
    "html",
    "-o",
    file,
    recording("golden/nagle_delayed_ack/fires"),
    recording("golden/nagle_delayed_ack/quiet"),
  );
  const { page, faults, close } = await open(browser, file);
  const words = await page.locator("main").innerText();
  assert.match(words, /B against A/);
  assert.match(words, /only in A|× less/);
  await navigate(page, () => page.getByRole("link", { name: "look at it" }).last().click());
  assert.match(await hash(page), /side=1/);
  assert.equal(
    await page
      .getByRole("button", { pressed: true })
      .innerText()
      .then((text) => text.startsWith("B")),
    true,
  );
  assert.deepEqual(faults, []);
  await close();
});

test("two recordings of messages say why those of the second take longer", async () => {
  const file = `${scratch}/slower.html`;
  const path = recording("golden_messages/recording");
  whylat("diff", "--format", "html", "-o", file, path, path);
  const { page, faults, close } = await open(browser, file);
  const panel = page.getByRole("region", { name: "Causes of the difference" });
  // a recording beside itself: nothing is slower
  assert.match(await panel.innerText(), /No application has ordinary messages/);
  assert.deepEqual(faults, []);
  await close();
});

test("a wrong link, and pages without data, say so and break nothing", async () => {
  for (const link of [
    "#page=messages&message=9:r1",
    "#page=nothing&in=what:1&view=5:1&select=%E0%A4%A",
    "#page=waits&object=none&in=tid:999999",
  ]) {
    const { page, faults, close } = await open(browser, messages, { hash: link });
    assert.ok((await page.locator("main").innerText()).length > 0);
    assert.deepEqual(faults, [], link);
    await close();
  }
  const { page, faults, close } = await open(browser, stalled, { hash: "#page=waits" });
  assert.match(await page.locator("main").innerText(), /holds no waits/);
  await navigate(page, () => page.getByRole("link", { name: "Messages" }).click());
  assert.match(await page.locator("main").innerText(), /holds no messages/);
  assert.deepEqual(faults, []);
  await close();
});

test("counters belong to a process, and legends have values", async () => {
  const { page, faults, close } = await open(browser, associated, { hash: "#page=waits&in=pid:4242" });
  const counters = page.locator("section.panel", { hasText: "Counters of the program" });
  await counters.locator(".u-legend .u-value").first().waitFor();
  const values = await counters.locator(".u-legend .u-value").allInnerTexts();
  assert.ok(values.length > 0);
  for (const value of values) assert.match(value, /\d/, `${values}`);
  await close();
  const other = await open(browser, associated, { hash: "#page=waits&in=pid:4243" });
  assert.match(await other.page.locator("main").innerText(), /Threads/);
  assert.equal(await other.page.getByText("Counters of the program").count(), 0);
  assert.deepEqual([...faults, ...other.faults], []);
  await other.close();
});

test("counters share the threads' time axis, and a wait shows their values", async () => {
  const { page, faults, close } = await open(browser, associated, { hash: "#page=waits" });
  assert.match(await page.locator("main").innerText(), /net: send_args/);
  const plot = page.getByRole("group", { name: "waits of each thread over time" });
  await meet(page, plot);
  assert.match(await page.locator(".tip").innerText(), /when it began/);
  assert.deepEqual(faults, []);
  await close();
});
