// CPU activity (table `activity`), found by time.

import type { Side } from "./side";
import { wordAt } from "./table";

export interface Span {
  /** Its row in the table. */
  row: number;
  begin: number;
  end: number;
  depth: number;
  kind: string;
  name: string | null;
  pid: string | null;
  tid: string | null;
  cpu: string | null;
  /** Whether begin and end were seen. */
  whole: boolean;
}

/** All spans, in order of their start. */
export function allSpans(side: Side): Span[] {
  return side.once(everySpan);
}

function everySpan(side: Side): Span[] {
  return spansWithin(side, -Infinity, Infinity);
}

/** Spans that touch a time, in order of their start. */
export function spansWithin(side: Side, from: number, to: number): Span[] {
  const table = side.table("activity");
  const [begins, ends, depths] = [table.numbers("begin_ns"), table.numbers("end_ns"), table.numbers("depth")];
  const words = (name: string) => table.words(name);
  const [kinds, names, pids, tids, cpus] = [words("kind"), words("name"), words("pid"), words("tid"), words("cpu")];
  const [beginSeen, endSeen] = [words("begin_seen"), words("end_seen")];
  const out: Span[] = [];
  for (let row = 0; row < table.rows; row++) {
    const [begin, end] = [begins[row] ?? 0, ends[row] ?? 0];
    if (begin <= to && end >= from) {
      out.push({
        row,
        begin,
        end,
        depth: depths[row] ?? 0,
        kind: wordAt(kinds, row) ?? "other",
        name: wordAt(names, row),
        pid: wordAt(pids, row),
        tid: wordAt(tids, row),
        cpu: wordAt(cpus, row),
        whole: wordAt(beginSeen, row) === "true" && wordAt(endSeen, row) === "true",
      });
    }
  }
  return out.sort((a, b) => a.begin - b.begin || a.depth - b.depth);
}
