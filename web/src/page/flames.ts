// CPU activity during the messages that are shown, as one flame graph.

import type { Messages } from "../data/messages";
import { nested } from "../data/nest";
import type { Side } from "../data/side";
import { type Span, allSpans } from "../data/spans";
import { el, show } from "../dom";
import { counted } from "../format";
import { nodeGraph } from "../plot/flame";

/** Returns the intervals, merged where they overlap, in order. */
type Times = [number, number][];

/** Spans up to which the graph is drawn at once. */
const OPEN_SPANS = 100_000;

/** A panel that is open; with many spans it is drawn when the reader opens it, for it looks at every one. */
export function flamePanel(side: Side, messages: Messages, rows: Uint32Array): HTMLElement[] {
  if (side.table("activity").rows === 0) {
    return [];
  }
  const place = el("div");
  const title = `CPU activity during ${rows.length === messages.rows ? "all messages" : `these ${counted(rows.length, "message")}`}`;
  const details = el("details", {}, el("summary", {}, `${title}, as a flame graph`), place);
  const draw = () => show(place, drawn(side, messages, rows));
  if (side.table("activity").rows <= OPEN_SPANS) {
    details.setAttribute("open", "");
    draw();
  }
  details.addEventListener("toggle", () => {
    if (details.hasAttribute("open") && place.childElementCount === 0) draw();
  });
  return [el("section.panel", {}, details)];
}

function drawn(side: Side, messages: Messages, rows: Uint32Array): HTMLElement {
  const times = intervalsOfCpus(messages, rows);
  const within = (span: Span) => overlap(times.get(span.cpu ?? "") ?? [], span.begin, span.end);
  const spans = allSpans(side).filter((span) => within(span) > 0);
  const root = nested(spans, within, (cpu) => `CPU ${cpu ?? "not known"}`);
  const graph = nodeGraph(root, "CPU activity");
  const note =
    "CPU time during messages with recorded CPU activity. Widths are shares of the total.";
  return graph
    ? el("div", {}, el("p.soft", {}, note), graph)
    : el("p.soft", {}, "No CPU activity was recorded for these messages.");
}

/** Returns for each CPU the intervals in which a message was on it. */
function intervalsOfCpus(messages: Messages, rows: Uint32Array): Map<string, Times> {
  const all = new Map<string, Times>();
  for (const row of rows) {
    const [begin, latency] = [messages.begin[row] ?? NaN, messages.latency[row] ?? NaN];
    if (Number.isNaN(begin + latency)) continue;
    const [table, own] = messages.own(row);
    const kernel = table.numbers(messages.sent[row] ? "driver_cpu" : "receive_cpu")[own] ?? NaN;
    for (const cpu of new Set([kernel, table.numbers("cpu")[own] ?? NaN])) {
      if (Number.isNaN(cpu)) continue;
      const times = all.get(String(cpu)) ?? [];
      times.push([begin, begin + latency]);
      all.set(String(cpu), times);
    }
  }
  for (const [cpu, times] of all) all.set(cpu, merged(times));
  return all;
}

function merged(times: Times): Times {
  times.sort((a, b) => a[0] - b[0]);
  const out: Times = [];
  for (const [from, to] of times) {
    const last = out[out.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else out.push([from, to]);
  }
  return out;
}

/** How much of a span lies in the times. */
function overlap(times: Times, begin: number, end: number): number {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle]?.[1] ?? 0) <= begin) low = middle + 1;
    else high = middle;
  }
  let sum = 0;
  for (let at = low; at < times.length; at++) {
    const [from, to] = times[at] ?? [0, 0];
    if (from >= end) break;
    sum += Math.min(to, end) - Math.max(from, begin);
  }
  return sum;
}
