// Readings of the stage ledger → the time of each stage between two of them.

import { type Side, rowsByCode } from "./side";

/** Columns of `tcp_stages` that sum up to one stage. */
const COLUMNS: Record<string, string[]> = {
  congestion_window: ["cwnd_startup_ns", "cwnd_loss_ns", "cwnd_cwr_ns", "cwnd_probing_ns"],
};

/** From one reading of a connection's ledger to the next. */
export interface Interval {
  fromNs: number;
  toNs: number;
  /** Stage → its time, ns. */
  stages: Map<string, number>;
}

interface Rows {
  byConn: Map<string, number[]>;
}

function rowsOf(side: Side): Rows {
  const table = side.table("tcp_stages");
  const conns = table.words("conn");
  const byConn = new Map<string, number[]>();
  for (const [code, rows] of rowsByCode(conns, table.rows)) {
    byConn.set(conns.words[code - 1] ?? "", rows);
  }
  return { byConn };
}

/** The intervals of a connection, in order; empty if it has no ledger. */
export function intervals(side: Side, conn: string, stages: string[]): Interval[] {
  const table = side.table("tcp_stages");
  const rows = [...(side.once(rowsOf).byConn.get(conn) ?? [])];
  const times = table.numbers("time_ns");
  const since = table.numbers("since_ns");
  rows.sort((a, b) => (times[a] ?? 0) - (times[b] ?? 0));
  const columns = stages.map((stage) => (COLUMNS[stage] ?? [`${stage}_ns`]).map((name) => table.numbers(name)));
  const out: Interval[] = [];
  let before: number | null = null;
  for (const row of rows) {
    const fromNs = before === null ? (since[row] ?? 0) : (times[before] ?? 0);
    const toNs = times[row] ?? 0;
    const spent = new Map<string, number>();
    columns.forEach((parts, index) => {
      const sum = (at: number | null): number =>
        at === null ? 0 : parts.reduce((total, part) => total + (part[at] ?? 0), 0);
      const ns = sum(row) - sum(before);
      if (ns > 0) {
        spent.set(stages[index] ?? "", ns);
      }
    });
    if (toNs > fromNs) {
      out.push({ fromNs, toNs, stages: spent });
    }
    before = row;
  }
  return out;
}
