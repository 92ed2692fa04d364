// One message in full, beside an ordinary one of the same application.

import { explained, nested } from "../data/nest";
import { type Messages, type Why } from "../data/messages";
import type { Side } from "../data/side";
import { type Span, spansWithin } from "../data/spans";
import { button, el } from "../dom";
import { bytes, duration, percent, words } from "../format";
import { type Life, type Stamp, lifetimePlot, sort, spanRows } from "../plot/lifetime";
import { asTable } from "../plot/plot";
import { colourOf } from "../theme/palette";
import type { Site } from "./page";

/** Stamps of a received message, in the order of its way, and the part that each ends (docs/messages.md). */
const RECEIVED: [column: string, name: string, part: string | null][] = [
  ["first_arrival_ns", "first segment", null],
  ["last_arrival_ns", "last segment", "arriving"],
  ["tcp_ns", "TCP", "softirq"],
  ["ready_ns", "ready", "tcp"],
  ["woken_ns", "woken", "wakeup"],
  ["running_ns", "running", "run_queue"],
  ["copy_ns", "copying", "program"],
  ["done_ns", "taken", "copy"],
];

/** The same of a sent one; the call may end before or after TCP begins. */
const SENT: [column: string, name: string, part: string | null][] = [
  ["call_ns", "call", null],
  ["tcp_ns", "TCP sends", "call"],
  ["queue_ns", "device queue", "output"],
  ["driver_ns", "driver", "qdisc"],
  ["acked_ns", "acknowledged", "network"],
];

/** The panel; `null`: there is no such message in the page. */
export function lifetimePanel(site: Site, messages: Messages, id: string): HTMLElement {
  const close = button("Close", () => site.store.go({ message: null }));
  const row = messages.rowOf(id);
  if (row === null) {
    return el(
      "section.panel.empty",
      {},
      el("header", {}, el("h2", {}, `Message ${id}`), el("span.end", {}, close)),
      "It is not in this page: only a part of the messages is, or the link is of another recording.",
    );
  }
  const why = messages.why(row);
  const usual = why ? ordinary(site.side, messages, why, row) : null;
  const life = lifeOf(site.side, messages, row);
  const reference = usual === null ? null : lifeOf(site.side, messages, usual);
  const kept = life.spans.length > 0;
  if (reference && reference.spans.length > 0) {
    life.usual = new Set(reference.spans.map(sort));
    life.explained = explainedSpans(site.side, life, reference);
  }
  return el(
    "section.panel.life",
    { "aria-label": `Message ${id}` },
    el(
      "header",
      {},
      el("h2", {}, `Message ${id}: ${duration(messages.latency[row] ?? NaN)}`),
      el(
        "span.soft",
        {},
        `${bytes(messages.bytes[row] ?? NaN)} ${messages.sent[row] ? "sent" : "received"} by ${site.side.process(messages.word(row, "pid"))}, ${duration(messages.begin[row] ?? NaN)} after the start`,
      ),
      el("span.end", {}, close),
    ),
    why ? causes(why) : null,
    !kept &&
      el(
        "p.soft",
        {},
        "What CPUs did meanwhile was not kept for this message; these are its stamps. Record with `--keep p99,sample=100` to have it of slow messages and of some others.",
      ),
    drawn(life),
    life.usual && el("p.soft", {}, "Outlined: what the ordinary message below did not meet. Faint: other threads, and what took longer only by what lies within it."),
    reference &&
      usual !== null &&
      el(
        "h3.part",
        {},
        `An ordinary one for comparison, ${messages.id(usual)}: ${duration(messages.latency[usual] ?? NaN)}`,
      ),
    reference && drawn(reference),
  );
}

/** Spans whose nested ones explain what they took longer than in an ordinary message. */
function explainedSpans(side: Side, life: Life, reference: Life): Set<Span> {
  const { tail } = side;
  const nest = (life: Life) => {
    const [from, to] = [life.stamps[0]?.atNs ?? 0, life.stamps[life.stamps.length - 1]?.atNs ?? 0];
    const time = (span: Span) => Math.max(0, Math.min(span.end, to) - Math.max(span.begin, from));
    return nested(life.spans, time, (cpu) => life.roles.get(cpu ?? "") ?? "");
  };
  const [own, usual] = [nest(life), nest(reference)];
  const nodes = explained(own.root, usual.root, tail?.explained ?? 1, tail?.resolution_ns ?? 0);
  return new Set(life.spans.filter((span) => nodes.has(own.nodes.get(span) ?? own.root)));
}

function drawn(life: Life): HTMLElement {
  const plot = lifetimePlot(life);
  return el(
    "div",
    {},
    plot.element,
    asTable(["from its begin", "length", "what", "name", "CPU"], () => spanRows(life)),
  );
}

function causes(why: Why): HTMLElement {
  const { explained, group } = why;
  const rows = explained.causes.map(({ cause, ns }) => {
    const named = group.causes[cause];
    const key = el("span.key");
    key.style.background = colourOf(named?.rule ?? "unknown");
    const share = explained.deviation_ns > 0 ? percent(ns / explained.deviation_ns) : "";
    return el(
      "tr",
      {},
      el("td", {}, key, ` ${named?.what ?? "not known"}`),
      el("td", {}, words(named?.rule ?? "")),
      el("td.number", {}, duration(ns)),
      el("td.number", {}, share),
    );
  });
  const head = `${duration(explained.deviation_ns)} longer than usual, ${percent(explained.covered)} of it explained; ${explained.ahead} ahead of it.`;
  return el("div", {}, el("p", {}, head), rows.length > 0 && el("table.facts", {}, el("tbody", {}, ...rows)));
}

/** A message of the same application that took as long as is usual and of which it is known what its CPUs did. */
function ordinary(side: Side, messages: Messages, why: Why, row: number): number | null {
  const windows = side.table("activity_windows");
  const [conns, sends, offsets] = [windows.words("conn"), windows.words("is_send"), windows.numbers("offset_end")];
  const kept = new Set<string>();
  for (let at = 0; at < windows.rows; at++) {
    const conn = conns.words[(conns.codes[at] ?? 0) - 1];
    const send = sends.words[(sends.codes[at] ?? 0) - 1];
    kept.add(`${conn}:${send === "true" ? "s" : "r"}${offsets[at]}`);
  }
  const pid = messages.word(row, "pid");
  let [best, least] = [-1, Infinity];
  for (let other = 0; other < messages.rows; other++) {
    const away = Math.abs((messages.latency[other] ?? NaN) - why.group.usual_ns);
    if (
      away < least &&
      messages.sent[other] === messages.sent[row] &&
      messages.word(other, "pid") === pid &&
      kept.has(messages.id(other))
    ) {
      [best, least] = [other, away];
    }
  }
  return best < 0 || best === row ? null : best;
}

function lifeOf(side: Side, messages: Messages, row: number): Life {
  const [table, own] = messages.own(row);
  const isSent = messages.sent[row] === 1;
  const stamps: Stamp[] = [];
  for (const [column, name, part] of isSent ? SENT : RECEIVED) {
    const atNs = table.numbers(column)[own] ?? NaN;
    if (!Number.isNaN(atNs)) {
      stamps.push({ atNs, name, part });
    }
  }
  const done = table.numbers("done_ns")[own] ?? NaN;
  if (isSent && !Number.isNaN(done)) {
    stamps.push({ atNs: done, name: "call ends", part: null });
    stamps.sort((a, b) => a.atNs - b.atNs);
    // Until the call ended it is the call's; what comes after it until TCP sends is held.
    const at = stamps.findIndex((stamp) => stamp.name === "call ends");
    const next = stamps[at + 1];
    const self = stamps[at];
    if (self && next?.name === "TCP sends") {
      self.part = "call";
      next.part = "held";
    } else {
      stamps.splice(at, 1);
    }
  }
  // The network's part of a sent message is no work of this host; the axis ends at the driver.
  const shown = stamps.filter((stamp) => stamp.name !== "acknowledged");
  const first = shown[0]?.atNs ?? messages.begin[row] ?? 0;
  const last = shown[shown.length - 1]?.atNs ?? first;
  const margin = Math.max(500, (last - first) * 0.06);
  const spans: Span[] = spansWithin(side, first - margin, last + margin);
  const roles = new Map<string, string>();
  const cpu = (column: string) => table.numbers(column)[own] ?? NaN;
  const kernel = cpu(isSent ? "driver_cpu" : "receive_cpu");
  if (!Number.isNaN(kernel)) roles.set(String(kernel), isSent ? "gave it to the driver" : "received it");
  const app = String(cpu("cpu"));
  roles.set(app, roles.has(app) ? `${roles.get(app)}, and ran its thread` : "ran its thread");
  return {
    label: `life of message ${messages.id(row)}`,
    stamps: shown,
    spans,
    tid: messages.word(row, "tid"),
    whole: [first - margin, last + margin],
    roles,
  };
}
