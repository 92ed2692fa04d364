// The life of a message is drawn as `whylat report --message` shows it: every part, and every step.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { lifeOf, noted } from "./life.mjs";
import { page as made, recording, whylat } from "./recordings.mjs";

const MESSAGES = {
  "TCP, received in one segment": "1:r50256",
  "TCP, received in several segments": "1:r4096",
  "TCP, received by a thread that waited": "1:r4196",
  "TCP, sent": "1:s4600",
  "TCP, sent, and held": "1:s8400",
  "TCP, retransmitted": "1:s13000",
  "TCP, sent, and stamped by the network adapter": "1:s8200",
  "UDP, received without a hook at the copy": "5:r200",
  "UDP, received and copied": "5:r1600",
  "UDP, sent": "5:s9000",
};

let browser, path, file;
before(async () => {
  browser = await launch();
  path = recording("golden_messages/recording");
  file = made(path);
});
after(() => browser.close());

const plain = (name) => name.toLowerCase().replaceAll(/[ _-]/g, "");

/** A message as the command line shows it, and as the page draws it. */
async function both(id) {
  const report = JSON.parse(whylat("report", "--message", id, "--format", "json", path));
  const text = whylat("report", "--message", id, path);
  const { page, faults, close } = await open(browser, file, {
    hash: `#page=messages&message=${id}`,
    width: 4000,
    script: noted,
  });
  const life = await lifeOf(page);
  await close();
  assert.deepEqual(faults, []);
  return { report, text, life };
}

for (const [what, id] of Object.entries(MESSAGES)) {
  test(`${what}: parts and steps are the report's`, async () => {
    const { report, text, life } = await both(id);
    const parts = report.lifetime.parts.filter((part) => part.ns > 0);
    assert.ok(parts.length > 0);
    // The table has their names and lengths, which the report prints, too.
    assert.deepEqual(
      life.parts.map((part) => plain(part.replace(/ [\d.]+ \S+$/, ""))),
      parts.map((part) => plain(part.part)),
    );
    for (const part of life.parts) assert.ok(text.includes(part), `${part} is not in\n${text}`);
    // The boxes are as wide as these are long, follow each other, and the pointer finds the same there.
    assert.equal(life.boxes.length, parts.length);
    const longest = parts.reduce((most, part, at) => (part.ns > parts[most].ns ? at : most), 0);
    const scale = life.boxes[longest].width / parts[longest].ns;
    let left = life.boxes[0].left;
    life.boxes.forEach((box, at) => {
      assert.ok(Math.abs(box.left - left) < 0.01, `${life.parts[at]} begins at ${box.left}, not at ${left}`);
      left += parts[at].ns * scale;
      const width = Math.max(1, parts[at].ns * scale);
      assert.ok(Math.abs(box.width - width) < 0.01, `${life.parts[at]} is ${box.width} wide`);
      if (box.tip !== null) assert.equal(box.tip, life.parts[at]);
    });
    assert.ok(life.boxes.some((box) => box.tip !== null));
    // Every step is a line at its time, and in the table.
    assert.equal(life.lines.length, report.steps.length);
    report.steps.forEach((step, at) => {
      const left = life.lines[0] + step.after_ns * scale;
      assert.ok(Math.abs(life.lines[at] - left) <= 1, `${step.what} is at ${life.lines[at]}, not at ${left}`);
    });
    assert.equal(life.steps.length, report.steps.length);
    for (const step of life.steps) {
      const name = step.name.replace(/ ± .*$/, "").replace("thread ", "");
      assert.ok(text.includes(name), `${step.name} is not in\n${text}`);
    }
    const error = report.steps.find((step) => step.error_ns !== null)?.error_ns;
    assert.deepEqual(
      life.steps.filter((step) => step.name.includes("±")).map((step) => step.name),
      error === undefined ? [] : [`the adapter sent the last byte ± ${error} ns`],
    );
  });
}

test("a message without all times has steps and no parts", async () => {
  const { report, life } = await both("1:s24000");
  assert.equal(report.lifetime, null);
  assert.deepEqual(life.boxes, []);
  assert.equal(life.steps.length, report.steps.length);
});
