// What the recording covers, what it lost, its overhead: always, also when all is well.

import type { About, Coverage } from "../data/contract";
import type { Side } from "../data/side";
import type { Table } from "../data/table";
import { el, prose } from "../dom";
import { bytes, count, counted, duration, percent, words } from "../format";

const CLOSED: Record<About["closed"], string> = {
  in_order: "in order",
  recovered: "by `whylat recover`, after a crash: the end may be missing",
  not_closed: "never: the end is missing. Close it with `whylat recover`",
};

/** Returns coverage, loss and cost of a recording. */
export function recordingPanel(side: Side): HTMLElement {
  const { report } = side;
  const { host } = report;
  const entries: [string, Node | string | null][] = [
    [
      "Command",
      el("div.long.code", { tabindex: "0", role: "region", "aria-label": "command line" }, host.arguments.join(" ")),
    ],
    ["Host", `${host.name}, ${host.cpus} CPUs, Linux ${host.kernel}`],
    ["Coverage", coverage(report)],
    ["Loss", loss(report)],
    ["Overhead", cost(report)],
    ["Closed", el("span", {}, ...prose(CLOSED[report.closed]))],
    ["Damaged", report.problems.length > 0 ? lines(report.problems) : null],
    ["Left out", leftOut(side)],
    ["Connections", someConnections(side)],
  ];
  const shown = entries.filter(([, text]) => text !== null);
  const list = shown.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]);
  return el("section.panel", {}, el("header", {}, el("h2", {}, "The recording")), el("dl.about", {}, ...list));
}

function lines(texts: string[]): HTMLElement {
  return el("div", {}, ...texts.map((text) => el("div", {}, text)));
}

/** Returns the probes that were on, and those that were off with the reason. */
function coverage(about: About): HTMLElement {
  const all = about.coverage;
  const part = (it: Coverage) => {
    const parts = (about.left_out ?? []).filter((left) => left.probe === it.probe);
    return parts.map((left) => `${left.rows > 0 ? `${count(left.rows)} rows` : "rows"} of ${left.table}`).join(" and ");
  };
  const named = (probes: Coverage[]) => probes.map((it) => it.probe).join(", ") || "nothing";
  const on = all.filter((it) => it.state === "on" && !part(it));
  const others = all.filter((it) => !on.includes(it));
  const partly = others.filter((it) => it.state === "on");
  const gaps = partly.map((it) => el("div.worse", {}, `${it.probe} in part: ${part(it)} are left out`));
  // Probes with the same cause share a line.
  const byCause = new Map<string, Coverage[]>();
  for (const it of others.filter((it) => it.state !== "on")) {
    const remedy = it.remedy ? ` Fix: ${it.remedy}.` : "";
    const reason = [it.which, it.why].filter((text) => text).join("; ");
    const cause = `${it.state === "off" ? "off" : "partly"}: ${reason}.${remedy}`;
    byCause.set(cause, [...(byCause.get(cause) ?? []), it]);
  }
  const lines = [...byCause].map(([cause, probes]) => el("div.soft", {}, ...prose(`${named(probes)} ${cause}`)));
  return el("div", {}, el("div", {}, `on: ${named(on)}`), ...gaps, ...lines);
}

function loss(about: About): HTMLElement {
  const sum = (of: (it: About["loss"][number]) => number) => about.loss.reduce((total, it) => total + of(it), 0);
  const lost = sum((it) => it.lost_total);
  const odd = about.loss.filter((it) => it.lost_total > 0 || it.residual !== 0);
  const text = `${count(lost)} of ${count(sum((it) => it.produced))} records lost, ${sum((it) => it.residual)} unaccounted for`;
  const losses = odd.map((it) => {
    const causes = Object.entries(it.lost).filter(([, number]) => number > 0);
    const why = causes.map(([cause, number]) => `${count(number)} ${cause}`).join(", ");
    return el("div.worse", {}, `${it.probe}: ${count(it.lost_total)} lost (${why}), ${it.residual} unaccounted for`);
  });
  return el("div", {}, el("div", {}, text), ...losses);
}

/** Returns the cost of recording in words. */
function cost(about: About): string {
  const { cost } = about;
  if (!cost) {
    return "not recorded";
  }
  const cpu = cost.wall_ns > 0 ? cost.cpu_ns / cost.wall_ns : 0;
  const bpf =
    cost.bpf_cpu_share === null
      ? "BPF time not measured"
      : `${percent(cost.bpf_cpu_share)} in BPF, measured for ${duration(cost.bpf_sampled_ns)}`;
  return `recorder ${percent(cpu)} of one CPU and ${bytes(cost.max_rss_bytes)}; ${bpf}`;
}

/** Tables that the page holds only in part; `null`: it holds all. */
function leftOut(side: Side): HTMLElement | null {
  const parts = side.thinned().map((table) => `${table.head.name}: ${inPart(table)}`);
  return parts.length > 0 ? lines(parts) : null;
}

function inPart(table: Table): string {
  const nth = Math.ceil(table.allRows / Math.max(1, table.rows));
  return `about one in ${nth} of ${count(table.allRows)} rows is in this page; with all, it would be too large`;
}

/** Returns a text about connections that the page does not have; `null`: it has all. */
export function someConnections(side: Side): string | null {
  const { connections, connections_not_judged: notJudged = 0, connections_not_listed: notListed = 0 } = side.report;
  const parts = [];
  if (notJudged > 0) parts.push(`the ${counted(notJudged, "shortest connection")} are not judged`);
  if (notListed > 0) parts.push(`the ${count(connections.length)} with the most lost time are listed, ${count(notListed)} more are not`);
  return parts.length > 0 ? `${parts.join("; ")}.` : null;
}

/** Says on a page that its tables are here only in part. */
export function partNote(side: Side, names: string[]): HTMLElement[] {
  const parts = side.thinned().filter((table) => names.includes(table.head.name));
  return parts.map((table) =>
    el(
      "p.soft",
      { role: "note" },
      `${words(table.head.name)}: ${inPart(table)}. Numbers below are of these rows, except those of the report.`,
    ),
  );
}
