// What happened to connections (`tcp_events`), by connection.

import { type Side, rowsByCode } from "./side";
import { wordAt } from "./table";

export interface TcpEvent {
  atNs: number;
  kind: string;
  segments: number;
  inFlightBytes: number;
}

/** Kinds of events that are problems; changes of state are not among them. */
export const PROBLEM_KINDS: Record<string, string> = {
  fast_retransmit: "fast retransmit",
  timeout_retransmit: "retransmission timeout",
  tail_loss_probe: "tail-loss probe",
  syn_retransmit: "SYN retransmitted",
  spurious: "spurious retransmission",
  zero_window_open: "zero window",
  zero_window_close: "window open again",
};

function grouped(side: Side): Map<string, number[]> {
  const table = side.table("tcp_events");
  const conns = table.words("conn");
  const byConn = new Map<string, number[]>();
  for (const [code, rows] of rowsByCode(conns, table.rows)) {
    byConn.set(conns.words[code - 1] ?? "", rows);
  }
  return byConn;
}

/** Returns the problems of a connection, in order of time. */
export function problemsOf(side: Side, conn: string): TcpEvent[] {
  const table = side.table("tcp_events");
  const [times, kinds] = [table.numbers("time_ns"), table.words("kind")];
  const [segments, inFlight] = [table.numbers("segments"), table.numbers("in_flight_bytes")];
  const events = (side.once(grouped).get(conn) ?? []).map((row) => ({
    atNs: times[row] ?? 0,
    kind: wordAt(kinds, row) ?? "",
    segments: segments[row] ?? NaN,
    inFlightBytes: inFlight[row] ?? NaN,
  }));
  return events.filter((event) => event.kind in PROBLEM_KINDS).sort((a, b) => a.atNs - b.atNs);
}
