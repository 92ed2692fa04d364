// Received and sent messages as one list, each with the largest cause of its slowness where that is known.

import type { Cause, ExplainedMessage, TailGroup } from "./contract";
import type { Side } from "./side";
import { type Table, wordAt } from "./table";
import type { Facts } from "../state/filter";

export interface Why {
  group: TailGroup;
  explained: ExplainedMessage;
}

export interface Messages {
  rows: number;
  /** When the host had it, ns from the start; NaN: not all of its times are known. */
  begin: Float64Array;
  latency: Float64Array;
  bytes: Float64Array;
  /** 1: it counts in distributions; 0: a page of a part of the messages holds it because it is explained. */
  sample: Float64Array;
  /** 1: sent. */
  sent: Uint8Array;
  /** Index of the first cause in `causes`, plus one; 0: not explained. */
  cause: Uint16Array;
  causes: { rule: string; what: string }[];
  /** Those without all times. */
  unknown: number;
  id: (row: number) => string;
  word: (row: number, column: "conn" | "pid" | "tid") => string | null;
  why: (row: number) => Why | null;
  rowOf: (id: string) => number | null;
  /** The row in its own table. */
  own: (row: number) => [Table, number];
  facts: Facts;
}

/** How a cause is named: by rule and what it is. */
export function causeName(cause: Pick<Cause, "rule" | "what">): string {
  return cause.what;
}

/** Returns the messages of a recording: received ones, then sent ones. */
export function messagesOf(side: Side): Messages {
  const received = side.table("received_messages");
  const sent = side.table("sent_messages");
  const first = received.rows;
  const rows = first + sent.rows;
  const joined = (name: string): Float64Array => {
    const out = new Float64Array(rows);
    out.set(received.numbers(name));
    out.set(sent.numbers(name), first);
    return out;
  };
  const own = (row: number): [Table, number] => (row < first ? [received, row] : [sent, row - first]);
  const word = (row: number, column: string): string | null => {
    const [table, at] = own(row);
    return wordAt(table.words(column), at);
  };
  const offsets = joined("offset_end");
  const id = (row: number) => `${word(row, "conn") ?? "?"}:${row < first ? "r" : "s"}${offsets[row]}`;
  const begin = joined("life_begin_ns");
  const latency = joined("latency_ns");
  const whys = explainedOf(side);
  const causes: { rule: string; what: string }[] = [];
  const codes = new Map<string, number>();
  const cause = new Uint16Array(rows);
  const rowOfId = new Map<string, number>();
  let unknown = 0;
  for (let row = 0; row < rows; row++) {
    if (Number.isNaN(latency[row])) unknown++;
    if (whys.size === 0) continue;
    const why = whys.get(id(row));
    const top = why?.explained.causes[0];
    const named = why && top ? why.group.causes[top.cause] : undefined;
    if (why) rowOfId.set(why.explained.id, row);
    if (named) {
      const name = `${named.rule}\n${causeName(named)}`;
      if (!codes.has(name)) {
        causes.push({ rule: named.rule, what: causeName(named) });
        codes.set(name, causes.length);
      }
      cause[row] = codes.get(name) ?? 0;
    }
  }
  const sentFlags = new Uint8Array(rows);
  sentFlags.fill(1, first);
  return {
    rows,
    begin,
    latency,
    bytes: joined("bytes"),
    sample: joined("is_sample"),
    sent: sentFlags,
    cause,
    causes,
    unknown,
    id,
    word,
    own,
    why: (row) => (whys.size === 0 ? null : (whys.get(id(row)) ?? null)),
    rowOf: (wanted) => rowOfId.get(wanted) ?? find(rows, id, wanted),
    facts: {
      begin: (row) => begin[row] ?? NaN,
      end: (row) => (begin[row] ?? NaN) + (latency[row] ?? NaN),
      latency: (row) => latency[row] ?? NaN,
      has: {
        conn: (row, value) => word(row, "conn") === value,
        pid: (row, value) => word(row, "pid") === value,
        tid: (row, value) => word(row, "tid") === value,
        cause: (row, value) => causes[(cause[row] ?? 0) - 1]?.what === value,
      },
    },
  };
}

function find(rows: number, id: (row: number) => string, wanted: string): number | null {
  for (let row = 0; row < rows; row++) {
    if (id(row) === wanted) return row;
  }
  return null;
}

function explainedOf(side: Side): Map<string, Why> {
  const out = new Map<string, Why>();
  for (const group of side.tail?.groups ?? []) {
    for (const explained of group.explained) {
      out.set(explained.id, { group, explained });
    }
  }
  return out;
}
