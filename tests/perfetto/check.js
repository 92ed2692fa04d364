// What `whylat report --format perfetto` writes, as Perfetto's own trace processor understands it: names, times,
// nesting, counters, flows and findings of a small recording. `recording/` is laid over a golden one, which brings
// the connections and a finding.
//
// Needs the binaries in target/release: `make perfetto-check` builds them.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { TraceProcessor } from "./trace_processor.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const BUILT = process.env.WHYLAT_PROGRAMS ?? join(HERE, "../../target/release");
// What the times of the recording count from.
const BEGIN_NS = 5_000_100_000_000n;

const scratch = mkdtempSync(join(tmpdir(), "whylat-perfetto-"));
const trace = join(scratch, "r.pftrace");
let processor;

before(async () => {
  const [text, recording] = [join(scratch, "text"), join(scratch, "r.whylat")];
  cpSync(join(HERE, "recording"), text, { recursive: true });
  writeFileSync(join(text, "inherits.txt"), `${join(HERE, "../golden/nagle_delayed_ack/fires")}\n`);
  execFileSync(join(BUILT, "examples/recording"), [text, recording]);
  assert.equal(exported(recording).status, 0);
  processor = await TraceProcessor.load(readFileSync(trace));
});

after(() => rmSync(scratch, { recursive: true }));

function exported(recording) {
  const options = ["report", "--format", "perfetto", "-o", trace, recording];
  return spawnSync(join(BUILT, "whylat"), options, { encoding: "utf8" });
}

// Spans and moments of tracks: name, begin, length and depth, in the order of begins.
function slices(where) {
  const rows = processor.query(`
    SELECT slice.name AS name, ts, dur, depth FROM slice JOIN track ON slice.track_id = track.id
    WHERE ${where} ORDER BY ts, depth, slice.id`);
  return rows.map((row) => [row.name, Number(row.ts - BEGIN_NS), Number(row.dur), Number(row.depth)]);
}

const onTrack = (name) => slices(`track.name = '${name}'`);

// The same of tracks within a thread; of its own track the name is null.
function inThread(tid, track) {
  const name = track === null ? "IS NULL" : `= '${track}'`;
  return slices(`track.name ${name} AND track.id IN (
    SELECT thread_track.id FROM thread_track JOIN thread USING (utid) WHERE tid = ${tid})`);
}

// Arguments of the spans of a name.
function notes(slice) {
  const rows = processor.query(`
    SELECT key, int_value, string_value FROM slice JOIN args USING (arg_set_id)
    WHERE slice.name = '${slice}' AND key LIKE 'debug.%' ORDER BY slice.id, args.id`);
  return rows.map((row) => [row.key.replace(/^debug\./, ""), row.string_value ?? row.int_value]);
}

// Values of a counter by time.
function counts(name) {
  const rows = processor.query(`
    SELECT ts, value FROM counter JOIN counter_track ON counter.track_id = counter_track.id
    WHERE name = '${name}' ORDER BY ts`);
  return rows.map((row) => [Number(row.ts - BEGIN_NS), row.value]);
}

test("the trace processor finds no fault", () => {
  const faults = "SELECT name, value FROM stats WHERE value > 0 AND severity != 'info'";
  assert.deepEqual(processor.query(faults), []);
});

test("times are of CLOCK_MONOTONIC, and other clocks are known", () => {
  const clocks = processor.query(`
    SELECT clock_name AS clock, ts, clock_value AS ns FROM clock_snapshot
    WHERE clock_name != 'MONOTONIC' ORDER BY ts`);
  assert.deepEqual(clocks.map((row) => ({ ...row })), [
    { clock: "REALTIME", ts: BEGIN_NS, ns: 1_795_200_000_100_000_000n },
    { clock: "MONOTONIC_RAW", ts: BEGIN_NS + 10n, ns: 4_999_000_000_010n },
    { clock: "BOOTTIME", ts: BEGIN_NS + 20n, ns: 5_060_100_000_020n },
  ]);
});

test("what a CPU did is nested", () => {
  assert.deepEqual(onTrack("CPU 0"), [
    ["thread 4242 client", -50_000, 5_000, 0],
    ["epoll_wait()", -48_000, 2_000, 1],
    ["idle", 0, 10_000, 0],
    ["thread 4242 client", 10_000, 50_000, 0],
    ["read()", 12_000, 38_000, 1],
    ["softirq NET_RX", 20_000, 10_000, 2],
    ["hrtimer()", 30_000, 5_000, 2],
    ["write()", 50_000, 10_000, 1],
    ["idle", 60_000, 10_000, 0],
    ["close()", 60_000, 0, 1],
    ["interrupt local_timer", 60_000, 1_000, 1],
    ["client moved to another CPU", 65_000, 0, 1],
  ]);
  assert.deepEqual(notes("epoll_wait()"), [["end_seen", 0n]]);
});

test("what does not nest is drawn beside it, and names hold nothing that is not text", () => {
  assert.deepEqual(onTrack("CPU 1"), [
    ["thread 4243 </script>server", -5_000, 10_000, 0],
    ["open()", 2_000, 7_000, 0],
  ]);
});

test("without a CPU, spans are nested by thread", () => {
  assert.deepEqual(inThread(4250, "activity"), [
    ["poll_threads()", 1_000, 2_000, 0],
    ["spdk_recv()", 1_000, 1_000, 1],
  ]);
});

test("threads and processes have their names", () => {
  const threads = processor.query(`
    SELECT pid, process.name AS process, tid, thread.name AS thread FROM thread JOIN process USING (upid)
    WHERE tid IN (4242, 4250, 4251) ORDER BY tid`);
  assert.deepEqual(threads.map((row) => ({ ...row })), [
    { pid: 4242n, process: "client", tid: 4242n, thread: "client" },
    { pid: 4242n, process: "client", tid: 4250n, thread: null },
    { pid: 4242n, process: "client", tid: 4251n, thread: "worker" },
  ]);
});

test("waits are named by what was waited for", () => {
  assert.deepEqual(inThread(4251, null), [
    ["futex 0x7f3a2000", 1_000, 6_000, 0],
    ["epoll set 5", 8_000, 1_500, 0],
  ]);
  assert.deepEqual(notes("epoll set 5"), [
    ["kind", "epoll"], ["waker", "unseen"], ["ready", "127.0.0.1:41220 → 127.0.0.1:9000"],
  ]);
  assert.deepEqual(notes("futex 0x7f3a2000"), [
    ["kind", "futex"], ["waker", "thread"], ["waker_tid", 4242n], ["runq_ns", 500n],
  ]);
});

test("tasks are nested as they were reported, rows of outer ones being last", () => {
  assert.deepEqual(inThread(4242, "net"), [
    ["request", 10_000, 30_000, 0],
    ["parse", 10_000, 10_000, 1],
    ["send", 20_000, 20_000, 1],
    ["tick", 20_000, 0, 2],
  ]);
  assert.deepEqual(notes("parse"), [["metadata", '[{"key":"size","values":[64]}]']]);
  assert.deepEqual(inThread(4251, "synchronisation"), [["queue lock", 100, 800, 0]]);
});

test("tasks that overlap are side by side, in their process", () => {
  const overlapped = slices("track.name = 'net' AND track.type = 'process_track'");
  assert.deepEqual(overlapped, [["transfer 1", 5_000, 25_000, 0], ["transfer 2", 6_000, 29_000, 0]]);
});

test("moments, and spans without a known end, are moments of their thread", () => {
  assert.deepEqual(inThread(4242, null), [
    ["flushed", 11_000, 0, 0],
    ["never ended", 45_000, 0, 0],
    ["127.0.0.1:41220 → 127.0.0.1:9000", 70_000, 20_000, 0],
  ]);
});

test("messages are spans of their connection, with their parts", () => {
  assert.deepEqual(onTrack("127.0.0.1:41220 → 127.0.0.1:9000 received"), [
    ["received 64 B", 80_000, 13_000, 0],
    ["arriving", 80_000, 500, 1],
    ["softirq", 80_500, 500, 1],
    ["TCP", 81_000, 1_000, 1],
    ["received 64 B", 81_500, 13_500, 0],
    ["softirq", 81_500, 1_000, 1],
    ["wake-up", 82_000, 1_000, 1],
    ["TCP", 82_500, 1_500, 1],
    ["run queue", 83_000, 7_000, 1],
    ["program", 84_000, 10_000, 1],
    ["program", 90_000, 2_000, 1],
    ["copy", 92_000, 1_000, 1],
    ["copy", 94_000, 1_000, 1],
    ["received 64 B", 97_000, 1_000, 0],
  ]);
  const sent = 55_000_000;
  assert.deepEqual(onTrack("127.0.0.1:41220 → 127.0.0.1:9000 sent"), [
    ["sent 128 B", sent, 40_000, 0],
    ["call", sent, 500, 1],
    ["output", sent + 500, 500, 1],
    ["qdisc", sent + 1_000, 500, 1],
    ["NIC", sent + 1_500, 8_500, 1],
    ["network", sent + 10_000, 30_000, 1],
  ]);
});

test("flows lead from the network to the program, and back", () => {
  const steps = processor.query(`
    SELECT before_track.name AS before, a.ts AS begin, a.dur AS length, after_track.name AS after
    FROM flow JOIN slice a ON slice_out = a.id JOIN slice b ON slice_in = b.id
    JOIN track before_track ON a.track_id = before_track.id JOIN track after_track ON b.track_id = after_track.id
    WHERE a.category = 'message' ORDER BY flow.id`);
  const found = steps.map((row) => [row.before, Number(row.begin - BEGIN_NS), Number(row.length), row.after]);
  const connection = "127.0.0.1:41220 → 127.0.0.1:9000";
  const sent = 55_000_000;
  assert.deepEqual(found.sort((a, b) => a[1] - b[1] || b[2] - a[2]), [
    [`${connection} received`, 80_000, 13_000, "received"],
    ["CPU 0 received", 80_000, 2_000, `${connection} received`],
    [`${connection} received`, 81_500, 13_500, "received"],
    ["CPU 0 received", 81_500, 2_500, `${connection} received`],
    [`${connection} received`, 97_000, 1_000, "received"],
    [`${connection} sent`, sent, 40_000, "CPU 1 sent"],
    ["sent", sent, 2_000, `${connection} sent`],
  ]);
  assert.deepEqual(onTrack("CPU 1 sent"), [["sent 128 B", sent + 1_000, 9_000, 0]]);
  assert.deepEqual(inThread(4242, "received").map((slice) => slice[1]), [92_000, 94_000, 97_000]);
});

test("a message is named as whylat report --message takes it", () => {
  const ids = notes("received 64 B").filter(([key]) => key === "message").map(([, id]) => id);
  assert.deepEqual(new Set(ids), new Set(["1:r64", "1:r128", "1:r192"]));
});

test("counters of the program", () => {
  assert.deepEqual(counts("net send_args"), [[1_000, 1_400], [2_000, -8]]);
  assert.deepEqual(counts("net commands since the recording began"), [[3_000, 7], [4_000, 5]]);
  assert.deepEqual(counts("net load"), [[5_000, 0.125]]);
});

test("counters of connections", () => {
  const closed = 5_000_373_490_000 - Number(BEGIN_NS);
  assert.deepEqual(counts("127.0.0.1:41220 → 127.0.0.1:9000 rtt").at(-1), [closed, 39_800_000]);
  assert.deepEqual(counts("127.0.0.1:41220 → 127.0.0.1:9000 cwnd").at(-1), [closed, 10]);
  const units = processor.query("SELECT DISTINCT unit FROM counter_track WHERE name LIKE '% rtt'");
  assert.deepEqual(units.map((row) => row.unit), ["ns"]);
});

test("findings are moments", () => {
  const [worst, ...others] = onTrack("Findings");
  assert.deepEqual(worst, ["nagle_delayed_ack", 5_000_019_000_000 - Number(BEGIN_NS), 0, 0]);
  assert.deepEqual(others.map((slice) => slice[0]), ["slow_reader", "computes"]);
  const shown = Object.fromEntries(notes("nagle_delayed_ack"));
  assert.equal(shown.severity, "critical");
  assert.match(shown.headline, /^Nagle's algorithm held 9 short writes/);
});

test("an existing file is not replaced unasked", () => {
  const again = exported(join(scratch, "r.whylat"));
  assert.equal(again.status, 1);
  assert.match(again.stderr, /exists already\nhint: .*--force/);
});
