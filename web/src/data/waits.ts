// Waits as columns, and what they add up to by object.

import type { Identity, WaitGroup } from "./contract";
import type { Side } from "./side";
import { wordAt } from "./table";
import type { Facts } from "../state/filter";
import { processTitle } from "../page/who";

type WaitWord =
  | "conn"
  | "pid"
  | "tid"
  | "kind"
  | "waker"
  | "waker_tid"
  | "ready_conn"
  | "call_bytes"
  | "call_sends";

export interface Waits {
  rows: number;
  begin: Float64Array;
  end: Float64Array;
  /** Time from leaving the CPU to the wake-up, ns; to running again if the wake-up was not seen. */
  blocked: (row: number) => number;
  /** Object of each wait: a number, and its name. */
  object: Uint32Array;
  objects: string[];
  word: (row: number, column: WaitWord) => string | null;
  thread: Uint32Array;
  threads: string[];
  facts: Facts;
}

/** The name of an object with its process, as diagnose::waits::Identity writes it; a futex without its use. */
export function objectTitle(identity: Identity): string {
  return identity.process ? `${processTitle(identity.process)} ${identity.name}` : identity.name;
}

/** Returns the waits of a recording, by row. */
export function waitsOf(side: Side): Waits {
  const table = side.table("waits");
  const [begin, end, woken] = [table.numbers("start_ns"), table.numbers("end_ns"), table.numbers("woken_ns")];
  const object = table.words("object_name");
  const thread = table.words("tid");
  const word = (row: number, column: string) => wordAt(table.words(column), row);
  const [conns, ready] = [table.words("conn"), table.words("ready_conn")];
  const blocked = (row: number) => {
    const until = woken[row] ?? NaN;
    return (Number.isNaN(until) ? (end[row] ?? 0) : until) - (begin[row] ?? 0);
  };
  return {
    rows: table.rows,
    begin,
    end,
    blocked,
    object: object.codes,
    objects: object.words,
    thread: thread.codes,
    threads: thread.words,
    word,
    facts: {
      begin: (row) => begin[row] ?? NaN,
      end: (row) => end[row] ?? NaN,
      has: {
        conn: (row, value) => wordAt(conns, row) === value || wordAt(ready, row) === value,
        pid: (row, value) => word(row, "pid") === value,
        tid: (row, value) => wordAt(thread, row) === value,
        object: (row, value) => wordAt(object, row) === value,
      },
    },
  };
}

/** Holds the total of the waits for one object. */
export interface Sum {
  name: string;
  kind: string;
  count: number;
  blockedNs: number;
  longestNs: number;
  /** The report's group; absent where the object is not among the worst, or another has its name. */
  group: WaitGroup | undefined;
}

/** Groups of the report by their names; those that share one are left out, as nothing distinguishes them. */
function groupsByTitle(side: Side): Map<string, WaitGroup> {
  const out = new Map<string, WaitGroup>();
  const shared = new Set<string>();
  for (const group of side.waits?.groups ?? []) {
    const title = objectTitle(group);
    if (out.has(title)) shared.add(title);
    out.set(title, group);
  }
  for (const title of shared) out.delete(title);
  return out;
}

/** By object, most time first. */
export function sums(side: Side, waits: Waits, rows: Uint32Array): Sum[] {
  const groups = groupsByTitle(side);
  const byObject = new Map<number, Sum>();
  for (const row of rows) {
    const code = waits.object[row] ?? 0;
    let sum = byObject.get(code);
    if (!sum) {
      const name = waits.objects[code - 1] ?? "not known";
      sum = {
        name,
        kind: waits.word(row, "kind") ?? "other",
        count: 0,
        blockedNs: 0,
        longestNs: 0,
        group: groups.get(name),
      };
      byObject.set(code, sum);
    }
    const blocked = waits.blocked(row);
    sum.count += 1;
    sum.blockedNs += blocked;
    sum.longestNs = Math.max(sum.longestNs, blocked);
  }
  return [...byObject.values()].sort((a, b) => b.blockedNs - a.blockedNs);
}
