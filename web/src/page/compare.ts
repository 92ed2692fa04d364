// Two recordings side by side: the same plots in pairs, on the same axes, with the differences in numbers between them.

import type { Connection, Report } from "../data/contract";
import { messagesOf } from "../data/messages";
import type { Side } from "../data/side";
import { el, short } from "../dom";
import { bytes, count, duration, times, words } from "../format";
import { legend, shareBar, shareWords } from "../plot/bar";
import { type Curve, cdfPlot, percentiles } from "../plot/cdf";
import { colourAt, colourOf } from "../theme/palette";
import type { Page, Site } from "./page";
import { someConnections } from "./recording";

export const comparePage: Page = (site) => {
  const [before, after] = site.book.sides;
  if (!before || !after) {
    return [];
  }
  return [
    el("div.pair", {}, answer(site, before, "A"), answer(site, after, "B")),
    ...differencePanel(site),
    numbersPanel(before, after),
    el("div.pair", {}, stages(site, before, "A"), stages(site, after, "B")),
    ...latencies(before, after),
  ];
};

/** Returns the panel with the answer of one recording. */
function answer(site: Site, side: Side, letter: string): HTMLElement {
  const index = site.book.sides.indexOf(side);
  const findings = side.report.findings
    .slice(0, 4)
    .map((finding) =>
      el(
        "li",
        {},
        el("span.severity", { class: `severity ${finding.severity}` }, finding.severity),
        ` ${words(finding.rule)}: ${finding.headline}`,
      ),
    );
  const open = el("a", { href: `#page=answer&side=${index}` }, "look at it");
  return el(
    "section.panel",
    { "aria-label": `Answer of ${letter}` },
    el("header", {}, el("h2", {}, `${letter}: ${short(side.name, 60)}`), el("span.end", {}, open)),
    el("p.verdict", {}, side.answer),
    el("ul.plain", {}, ...findings),
  );
}

/** Causes of the difference that are shown of each application. */
const CAUSES = 5;

/** Why ordinary messages of the second recording take longer than those of the first. */
function differencePanel(site: Site): HTMLElement[] {
  const { difference } = site.book;
  if (!difference) {
    return [];
  }
  const slower = difference.groups.filter((group) => group.causes.length > 0);
  const parts = slower.map((group) => {
    const who = `${group.application ?? "an unknown process"}, ${group.direction}`;
    const lines = group.causes.slice(0, CAUSES).map((cause) => {
      const key = el("span.key");
      key.style.background = colourOf(cause.rule);
      return el(
        "tr",
        {},
        el("td", {}, key, ` ${cause.what} (${cause.role} core)`),
        el("td", {}, words(cause.rule)),
        el("td.number", {}, `first cause of ${count(cause.first)} of ${count(cause.messages)}`),
        el("td.number", {}, `${duration(cause.deviation_ns.median)} longer`),
      );
    });
    const left = group.causes.length - lines.length;
    const more = left > 0 ? el("p.soft", {}, `${count(left)} more`) : null;
    const took = group.deviation_ns === null ? "" : `: ${duration(group.deviation_ns)} longer on average`;
    return el("div.part", {}, el("h3", {}, `${who}${took}`), el("table.facts", {}, el("tbody", {}, ...lines)), more);
  });
  const none = "No application has ordinary messages that take longer in B than in A.";
  return [
    el(
      "section.panel",
      { "aria-label": "Causes of the difference" },
      el(
        "header",
        {},
        el("h2", {}, "Why B's messages take longer than A's"),
        el("span.soft", {}, `messages in ${difference.tail} of both; for faster messages: whylat diff B A`),
      ),
      ...(parts.length > 0 ? parts : [el("p.soft", {}, none)]),
    ),
  ];
}

interface Row {
  name: string;
  values: [number, number];
  write: (value: number) => string;
  /** Whether less is better; `null`: neither is. */
  less: boolean | null;
}

function total(report: Report, of: (connection: Connection) => number | null | undefined): number {
  const known = report.connections.map(of).filter((value): value is number => value !== null && value !== undefined);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) : NaN;
}

/** Returns the table of numbers of both recordings. */
function numbersPanel(before: Side, after: Side): HTMLElement {
  const both = (of: (side: Side) => number): [number, number] => [of(before), of(after)];
  const sum = (name: string) => both((side) => total(side.report, (it) => it.totals[name]));
  const percentile = (sent: number, at: number) => both((side) => percentiles(sorted(side, sent))[at]?.[1] ?? NaN);
  const rows: Row[] = [
    { name: "recorded", values: both((side) => side.report.span_ns), write: duration, less: null },
    { name: "connections", values: both((side) => side.report.connections.length), write: count, less: null },
    {
      name: "lost to findings",
      values: both((side) => total(side.report, (it) => it.harm_ns)),
      write: duration,
      less: true,
    },
    {
      name: "longest connection",
      values: both((side) => side.report.connections.reduce((most, it) => Math.max(most, it.lifetime_ns), 0)),
      write: duration,
      less: true,
    },
    { name: "bytes sent", values: sum("bytes_sent"), write: bytes, less: null },
    { name: "retransmitted segments", values: sum("retransmits"), write: count, less: true },
    { name: "retransmission timeouts", values: sum("timeouts"), write: count, less: true },
    { name: "waits for delayed ACKs", values: sum("delayed_acks"), write: count, less: true },
    { name: "blocked in send calls", values: sum("send_blocked_ns"), write: duration, less: true },
    { name: "blocked in receive calls", values: sum("receive_blocked_ns"), write: duration, less: true },
    { name: "received messages, p50", values: percentile(0, 0), write: duration, less: true },
    { name: "received messages, p99", values: percentile(0, 2), write: duration, less: true },
    { name: "sent messages, p50", values: percentile(1, 0), write: duration, less: true },
    { name: "sent messages, p99", values: percentile(1, 2), write: duration, less: true },
  ];
  const shown = rows.filter(({ values }) => !values.every(Number.isNaN));
  const lines = shown.map((row) =>
    el(
      "tr",
      {},
      el("td", {}, row.name),
      el("td.number", {}, valueText(row, 0)),
      el("td.number", {}, valueText(row, 1)),
      el("td.number", {}, difference(row)),
    ),
  );
  const head = ["Value", "A", "B", "B against A"].map((name, at) =>
    el(at === 0 ? "th" : "th.number", { scope: "col" }, name),
  );
  return el(
    "section.panel",
    {},
    el("header", {}, el("h2", {}, "Differences")),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...lines)),
    ...notAll(before, "A"),
    ...notAll(after, "B"),
  );
}

/** Totals are over the connections in the page. */
function notAll(side: Side, letter: string): HTMLElement[] {
  const text = someConnections(side);
  return text === null ? [] : [el("p.soft", { role: "note" }, `${letter}: ${text}`)];
}

function valueText(row: Row, at: 0 | 1): string {
  return Number.isNaN(row.values[at]) ? "unknown" : row.write(row.values[at]);
}

function difference(row: Row): HTMLElement | string {
  const [a, b] = row.values;
  if (Number.isNaN(a) || Number.isNaN(b)) return "–";
  if (a === b) return "the same";
  const ratio = a === 0 || b === 0 ? null : b > a ? b / a : a / b;
  // A few percent are noise of any two runs.
  if (ratio !== null && ratio < 1.05) return "about the same";
  const text = ratio === null ? (b > a ? "only in B" : "only in A") : `${times(ratio)} ${b > a ? "more" : "less"}`;
  if (row.less === null) return text;
  return el(b < a === row.less ? "span.better" : "span.worse", {}, text);
}

/** Returns the shares of stages of all connections of one recording. */
function stages(site: Site, side: Side, letter: string): HTMLElement {
  const sums = new Map<string, number>();
  let all = 0;
  for (const connection of side.report.connections) {
    for (const [name, share] of Object.entries(connection.stages)) {
      sums.set(name, (sums.get(name) ?? 0) + share.ns);
      all += share.ns;
    }
  }
  const shares: [string, number][] = site.book.stages.map(([name]) => [
    name,
    all > 0 ? (sums.get(name) ?? 0) / all : 0,
  ]);
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, `${letter}: what stopped the next byte`),
      el("span.soft", {}, `of ${duration(all)} of all connections`),
    ),
    all > 0 ? shareBar(shares, shareWords(shares), true) : el("p.soft", {}, "Not judged."),
    all > 0 && legend(shares),
  );
}

function sorted(side: Side, sent: number): Float64Array {
  const messages = side.once(messagesOf);
  const counts = (row: number) => messages.sent[row] === sent && messages.sample[row] === 1;
  const values = messages.latency.filter((ns, row) => counts(row) && !Number.isNaN(ns));
  return values.sort();
}

/** Returns the distributions of latencies of both recordings, by direction. */
function latencies(before: Side, after: Side): HTMLElement[] {
  const directions: [string, number][] = [
    ["received", 0],
    ["sent", 1],
  ];
  const panels: HTMLElement[] = [];
  for (const [name, sent] of directions) {
    const curves: Curve[] = [
      { label: "A", sorted: sorted(before, sent) },
      { label: "B", sorted: sorted(after, sent) },
    ];
    if (curves.every((curve) => curve.sorted.length === 0)) {
      continue;
    }
    const keys = curves.map((curve, index) => {
      const key = el("span.key");
      key.style.background = colourAt(index);
      return el(
        "li",
        {},
        key,
        `${curve.label}: ${count(curve.sorted.length)} messages, half up to ${duration(percentiles(curve.sorted)[0]?.[1] ?? NaN)}`,
      );
    });
    panels.push(
      el(
        "section.panel",
        {},
        el(
          "header",
          {},
          el("h2", {}, `Messages ${name}`),
          el("span.soft", {}, "share that is no slower, and share that is slower"),
        ),
        el(
          "div.pair",
          {},
          cdfPlot({ curves, tail: false, height: 180 }).element,
          cdfPlot({ curves, tail: true, height: 180 }).element,
        ),
        el("ul.legend", {}, ...keys),
      ),
    );
  }
  return panels;
}
