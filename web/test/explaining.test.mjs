// The life of a slow message outlines what explains it: the spans that the diagnosis names, and no others.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { lifeOf, noted } from "./life.mjs";
import { madeOf, page as made, scratch, whylat } from "./recordings.mjs";

const START_NS = 5_000_000_000_000;
const SERVER = { tid: 7, pid: 7 };
const IDLE = { tid: 0, pid: 0 };

/** Rows of a recording of one server, whose thread has CPU 0; CPU 1 receives. */
class Made {
  received = [];
  activity = [];
  now = START_NS + 1_000_000;

  span(cpu, depth, kind, name, who, begin_ns, end_ns) {
    const seen = { source: "tracepoints", begin_seen: true, end_seen: true };
    this.activity.push({ begin_ns, end_ns, depth, kind, name, ...who, cpu, ...seen });
  }

  /** A message; `within`: what happens on CPU 0 in its call, which takes this much longer. */
  message(longer, within = () => {}) {
    const begin = this.now;
    const [ready, done] = [begin + 3_000, begin + 20_000 + longer];
    this.span(1, 0, "task", "client", { tid: 9, pid: 9 }, begin, ready + 1_000);
    this.span(1, 1, "softirq", "NET_RX", { tid: 9, pid: 9 }, begin + 500, ready);
    this.span(0, 0, "idle", null, IDLE, begin, ready + 500);
    this.span(0, 0, "task", "server", SERVER, ready + 500, done + 1_000);
    this.span(0, 1, "syscall", "recvfrom", SERVER, ready + 1_000, done);
    within(ready + 2_000);
    this.received.push({
      ...{ done_ns: done, conn: 1, bytes: 100, offset_end: 100 * (this.received.length + 1), spliced_bytes: 0 },
      ...{ first_arrival_ns: begin, last_arrival_ns: begin, tcp_ns: begin + 2_000, ready_ns: ready },
      ...{ woken_ns: ready + 200, running_ns: ready + 500, copy_ns: done - 1_000, segments: 1, receive_cpu: 1, cpu: 0 },
      ...{ ...SERVER, backlog: false, doubt_ns: 0 },
    });
    this.now = done + 1_000;
  }

  recording(name) {
    const folder = join(scratch, name);
    mkdirSync(folder);
    const golden = fileURLToPath(new URL("../../tests/golden_messages/recording", import.meta.url));
    for (const file of ["header", "close", "cost", "coverage", "loss"])
      cpSync(join(golden, `${file}.json`), join(folder, `${file}.json`));
    for (const table of ["received", "activity"]) {
      const lines = this[table].map((row) => JSON.stringify(row)).join("\n");
      writeFileSync(join(folder, table === "received" ? "received_messages.jsonl" : "activity.jsonl"), `${lines}\n`);
    }
    return madeOf(folder, `${folder}.whylat`);
  }
}

let browser, path, file, slow;
before(async () => {
  browser = await launch();
  const all = new Made();
  for (let number = 0; number < 200; number++) all.message(number % 10);
  // An interrupt that no ordinary message meets: it is the cause, whatever runs in it.
  all.message(40_000, (at) => {
    all.span(0, 2, "irq", "eth0", SERVER, at, at + 40_000);
    all.span(0, 3, "function", "handle_edge_irq", SERVER, at + 100, at + 39_900);
  });
  // A function within a call that all of them make: it is the cause, and not the call.
  all.message(60_000, (at) => {
    all.span(0, 2, "function", "copy_page", SERVER, at, at + 60_000);
  });
  slow = all.received.slice(200).map((row) => `${row.conn}:r${row.offset_end}`);
  path = all.recording("slow");
  file = made(path);
});
after(() => browser.close());

async function drawn(id) {
  const { page, faults, close } = await open(browser, file, {
    hash: `#page=messages&message=${id}`,
    width: 2560,
    script: noted,
  });
  const life = await lifeOf(page);
  await close();
  assert.deepEqual(faults, []);
  return { ...life, explaining: life.spans.filter((row) => row[5] !== "") };
}

test("a slow message outlines its causes alone, by the names of the report", async () => {
  const { groups } = JSON.parse(whylat("report", "--tail", "p99", "--format", "json", path));
  for (const [id, what] of [
    [slow[0], "eth0"],
    [slow[1], "copy_page"],
  ]) {
    const { explaining, outlined } = await drawn(id);
    const explained = groups[0].explained.find((it) => it.id === id);
    const causes = explained.causes.map((it) => groups[0].causes[it.cause]);
    assert.ok(causes[0].parts.some((part) => part.name.includes(what)), JSON.stringify(causes[0].parts));
    const expected = causes.flatMap((cause) => cause.parts.map((part) => [part.name, cause.what, part.anomaly]));
    assert.deepEqual(
      explaining.map((row) => row[3]),
      [what],
    );
    for (const [, , , name, , why] of explaining) {
      assert.ok(
        expected.some(([part, cause, anomaly]) => part.includes(name) && why === `${cause} (${anomaly.replaceAll("_", " ")})`),
        `${name}: ${why} is not among ${JSON.stringify(expected)}`,
      );
    }
    assert.equal(outlined, explaining.length);
  }
});

test("an ordinary message outlines nothing", async () => {
  const { explaining, outlined } = await drawn("1:r500");
  assert.deepEqual([explaining, outlined], [[], 0]);
});
