// Requests in a trace, as Perfetto's own trace processor understands it: each is where `whylat report --requests` says
// it was, with its steps, and flows lead through the threads that had it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";

import { TraceProcessor } from "./trace_processor.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const BUILT = process.env.WHYLAT_PROGRAMS ?? join(HERE, "../../target/release");

const scratch = mkdtempSync(join(tmpdir(), "whylat-perfetto-"));
let processor, report;

after(() => rmSync(scratch, { recursive: true }));

// Spans of requests: their track, thread, begin, length and id.
function spans() {
  const rows = processor.query(`
    SELECT slice.id AS id, slice.name AS name, slice.ts AS ts, slice.dur AS dur, track.name AS track, thread.tid AS tid,
      (SELECT string_value FROM args WHERE args.arg_set_id = slice.arg_set_id AND key = 'debug.request') AS request
    FROM slice JOIN track ON slice.track_id = track.id LEFT JOIN thread_track ON thread_track.id = track.id
      LEFT JOIN thread USING (utid)
    WHERE slice.category = 'request' ORDER BY slice.ts, slice.id`);
  return rows.map((row) => ({ ...row, ts: Number(row.ts), dur: Number(row.dur), tid: row.tid && Number(row.tid) }));
}

const parts = (span) =>
  processor
    .query(`SELECT name, ts, dur FROM slice WHERE parent_id = ${span.id} ORDER BY ts, id`)
    .map((row) => [row.name, Number(row.ts), Number(row.dur)]);

// A name in text of a part, by its name in JSON.
const TEXT = { cpu: "computing", queued: "queued behind others", run_queue: "waiting for a CPU", remote: "the other end" };
const step = (request) => (it) => [TEXT[it.part] ?? it.part, request.begin_ns + it.after_ns, it.ns];

// The second has calls of UNIX sockets, which are in no table of connections: nginx asks gunicorn.
for (const folder of ["golden_requests", "golden_unix"]) {
  describe(folder, () => {
    before(async () => {
      const [recording, trace] = [join(scratch, `${folder}.whylat`), join(scratch, `${folder}.pftrace`)];
      execFileSync(join(BUILT, "examples/recording"), [join(HERE, "..", folder, "recording"), recording]);
      execFileSync(join(BUILT, "whylat"), ["report", "--format", "perfetto", "-o", trace, recording]);
      const asked = ["report", "--requests", "--format", "json", recording];
      report = JSON.parse(execFileSync(join(BUILT, "whylat"), asked, { encoding: "utf8" }));
      processor = await TraceProcessor.load(readFileSync(trace));
    });

    test("each request is a span of its service, with its steps", () => {
      const own = spans().filter((span) => span.name.startsWith("request: "));
      assert.equal(own.length, report.requests.length);
      for (const request of report.requests) {
        const span = own.find((it) => it.request === request.id);
        assert.deepEqual([span.track, span.ts, span.dur], [request.service, request.begin_ns, request.duration_ns]);
        assert.deepEqual(parts(span), request.path.map(step(request)));
        const [[largest]] = Object.entries(request.parts).sort((a, b) => b[1] - a[1]);
        assert.equal(span.name, `request: ${TEXT[largest] ?? largest}`);
      }
    });

    test("each thread that had a request has a span of that time", () => {
      const threads = spans().filter((span) => span.name === "request");
      for (const request of report.requests) {
        const own = threads.filter((span) => span.request === request.id);
        const expected = request.path.filter((it) => it.tid !== undefined);
        assert.deepEqual(own.flatMap(parts), expected.map(step(request)));
        const tids = expected.map((it) => it.tid).filter((tid, at, all) => at === 0 || tid !== all[at - 1]);
        const seen = own.map((span) => span.tid).filter((tid, at, all) => at === 0 || tid !== all[at - 1]);
        assert.deepEqual(seen, tids);
      }
    });

    test("flows lead from the request to its first thread, and from thread to thread", () => {
      const flows = processor.query(`
        SELECT a.id AS before, b.id AS after FROM flow JOIN slice a ON slice_out = a.id JOIN slice b ON slice_in = b.id`);
      const all = spans();
      const chains = report.requests.flatMap(({ id }) => {
        const own = all.filter((span) => span.request === id);
        const chain = [...own.filter((it) => it.name !== "request"), ...own.filter((it) => it.name === "request")];
        return chain.slice(1).map((span, at) => [chain[at].id, span.id]);
      });
      const found = flows.map((flow) => [flow.before, flow.after]);
      assert.deepEqual(new Set(found.map(String)), new Set(chains.map(String)));
    });
  });
}
