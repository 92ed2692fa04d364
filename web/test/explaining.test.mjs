// The life of a slow message outlines what explains it: the spans that the diagnosis names, and no others.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { lifeOf, noted } from "./life.mjs";
import { madeOf, page as made, scratch, textOf, whylat } from "./recordings.mjs";

const START_NS = 5_000_000_000_000;
const SERVER = { tid: 7, pid: 7 };
const IDLE = { tid: 0, pid: 0 };

/** Rows of a recording of one server: its thread has CPU 0, and CPU 1 receives. */
class Made {
  received_messages = [];
  activity = [];
  waits = [];
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
    this.taken(begin, ready, done);
  }

  /** A message before which the thread waits for a lock. */
  locked(wait) {
    const begin = this.now;
    const ready = begin + 3_000;
    const [from, to] = [ready + 1_000, ready + 1_000 + wait];
    this.span(1, 0, "task", "client", { tid: 9, pid: 9 }, begin, ready + 1_000);
    this.span(1, 1, "softirq", "NET_RX", { tid: 9, pid: 9 }, begin + 500, ready);
    this.span(0, 0, "idle", null, IDLE, begin, ready + 500);
    this.span(0, 0, "task", "server", SERVER, ready + 500, from);
    this.span(0, 0, "idle", null, IDLE, from, to);
    this.span(0, 0, "task", "server", SERVER, to, to + 17_000);
    this.span(0, 1, "syscall", "recvfrom", SERVER, to + 500, to + 16_000);
    const who = { ...SERVER, waker: "thread", waker_tid: 8, waker_pid: 7, ready_conn: null, uninterruptible: false };
    const what = { kind: "futex", object: 1, conn: null, fd: null, syscall: 202, cpu: 0, stack: null };
    this.waits.push({ start_ns: from, woken_ns: to, end_ns: to, ...who, ...what });
    this.taken(begin, ready, to + 16_000);
  }

  taken(begin, ready, done) {
    this.received_messages.push({
      ...{ done_ns: done, conn: 1, bytes: 100, offset_end: 100 * (this.received_messages.length + 1), spliced_bytes: 0 },
      ...{ first_arrival_ns: begin, last_arrival_ns: begin, tcp_ns: begin + 2_000, ready_ns: ready },
      ...{ woken_ns: ready + 200, running_ns: ready + 500, copy_ns: done - 1_000, segments: 1, receive_cpu: 1, cpu: 0 },
      ...{ ...SERVER, backlog: false, doubt_ns: 0 },
    });
    this.now = done + 1_000;
  }

  recording(name) {
    const folder = join(scratch, name);
    mkdirSync(folder);
    for (const file of ["header", "close", "cost", "coverage", "loss"].map((name) => `${name}.json`))
      writeFileSync(join(folder, file), textOf("golden_messages/recording", file));
    for (const table of ["received_messages", "activity", "waits"]) {
      const lines = this[table].map((row) => `${JSON.stringify(row)}\n`).join("");
      writeFileSync(join(folder, `${table}.jsonl`), lines);
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
  // No CPU does anything for it.
  all.locked(80_000);
  slow = all.received_messages.slice(200).map((row) => `${row.conn}:r${row.offset_end}`);
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
  const legend = await page.locator(".panel.life").innerText();
  await close();
  assert.deepEqual(faults, []);
  return { ...life, legend, explaining: life.spans.filter((row) => row[5] !== "") };
}

test("a slow message outlines its causes alone, by the names of the report", async () => {
  const { groups } = JSON.parse(whylat("report", "--tail", "p98", "--format", "json", path));
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

test("a cause that is the work of no CPU is named below", async () => {
  const { explaining, legend } = await drawn(slow[2]);
  const causes = JSON.parse(whylat("report", "--tail", "p98", "--format", "json", path)).groups[0];
  const [first] = causes.explained.find((it) => it.id === slow[2]).causes;
  assert.equal(causes.causes[first.cause].rule, "blocked_in_call");
  const { what } = causes.causes[first.cause];
  assert.ok(legend.includes(`Causes without CPU activity, so not outlined: ${what}`), legend);
  assert.ok(explaining.every((row) => !row[5].includes(what)));
});

test("an ordinary message outlines nothing", async () => {
  const { explaining, outlined } = await drawn("1:r500");
  assert.deepEqual([explaining, outlined], [[], 0]);
});
