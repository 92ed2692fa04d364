// How long messages took: their distribution, and each by itself; then why the slow ones did.

import { type Messages, messagesOf } from "../data/messages";
import type { TailGroup } from "../data/contract";
import { el, prose } from "../dom";
import { count, counted, duration } from "../format";
import { type Balloons, balloonNote, balloonPlot, balloonRows } from "../plot/balloon";
import { type Curve, cdfPlot, percentiles } from "../plot/cdf";
import { asTable } from "../plot/plot";
import { extent } from "../plot/scale";
import { rowsPassing } from "../state/filter";
import { colourAt, colourOf } from "../theme/palette";
import { causesPanel } from "./causes";
import { flamePanel } from "./flames";
import { lifetimePanel } from "./lifetime";
import type { Page, Site } from "./page";
import { partNote } from "./recording";

/** Causes in the legend: the most frequent ones. */
const LEGEND = 8;

export const messagesPage: Page = (site) => {
  const messages = site.side.once(messagesOf);
  if (messages.rows === 0) {
    const text =
      "This recording holds no messages. Record with `--detail messages` for the latency of each, from the driver to the program. Add `--keep p99,sample=100` for the causes of slow ones.";
    return [el("section.panel.empty", {}, text)];
  }
  const rows = rowsPassing(site.state.filters, messages.facts, messages.rows);
  const groups = site.side.tail?.groups ?? [];
  return [
    ...partNote(site.side, ["received_messages", "sent_messages", "activity"]),
    el("div.wider", {}, balloonPanel(site, messages, rows), distributionPanel(site, messages, rows)),
    ...(site.state.message ? [lifetimePanel(site, messages, site.state.message)] : []),
    ...flamePanel(site.side, messages, rows),
    ...groups.filter((group) => group.tail.kept > 0).map((group) => causesPanel(site, group)),
    ...withoutActivity(groups),
    ...(groups.length === 0
      ? [
          el(
            "section.panel.empty",
            {},
            "No CPU activity was recorded: the causes of slow messages are unknown. Record with `--detail messages --keep p99,sample=100`.",
          ),
        ]
      : []),
  ];
};

/** Returns one panel for all groups of slow messages without recorded CPU activity. */
function withoutActivity(groups: TailGroup[]): HTMLElement[] {
  const names = groups
    .filter((group) => group.tail.kept === 0)
    .map((group) => `${group.direction} by ${group.application ?? "an unknown process"}`);
  if (names.length === 0) {
    return [];
  }
  const text = `Slow messages without recorded CPU activity: ${names.join(", ")}. Their causes cannot be determined. Record with \`--keep p99,sample=100\`.`;
  return [el("section.panel.empty", {}, ...prose(text))];
}

/** Returns the plot of latencies over time. */
function balloonPanel(site: Site, messages: Messages, rows: Uint32Array): HTMLElement {
  const options: Balloons = {
    messages,
    rows,
    store: site.store,
    whole: extent(messages.begin, messages.begin, site.side.report.span_ns),
    height: 360,
    who: (row) => site.side.process(messages.word(row, "pid")),
  };
  const plot = balloonPlot(options);
  site.live(() => plot.redraw());
  const unknown =
    messages.unknown > 0 ? ` Not drawn: ${counted(messages.unknown, "message")} with missing timestamps.` : "";
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, "Each message"),
      el("span.soft", {}, `${balloonNote(options)}.${unknown} Drag to select, click for one message.`),
    ),
    plot.element,
    causeLegend(messages, rows),
    asTable(["at", "latency", "message", "cause"], () => balloonRows(options)),
  );
}

/** Returns the legend of causes with the number of messages of each; `null`: no message has a cause. */
function causeLegend(messages: Messages, rows: Uint32Array): HTMLElement | null {
  const numbers = new Uint32Array(messages.causes.length + 1);
  for (const row of rows) {
    const cause = messages.cause[row] ?? 0;
    numbers[cause] = (numbers[cause] ?? 0) + 1;
  }
  const items = messages.causes.map((cause, index) => ({ cause, number: numbers[index + 1] ?? 0 }));
  const found = items.filter((item) => item.number > 0).sort((a, b) => b.number - a.number);
  const shown = found.slice(0, LEGEND);
  const more = found.length - shown.length;
  if (shown.length === 0) {
    return null;
  }
  return el(
    "ul.legend",
    { "aria-label": "First causes" },
    ...shown.map(({ cause, number }) => {
      const key = el("span.key");
      key.style.background = colourOf(cause.rule);
      return el("li", {}, key, `${cause.what} (${count(number)})`);
    }),
    more > 0 ? el("li.soft", {}, `${count(more)} more`) : null,
  );
}

/** Returns the distributions of latencies. */
function distributionPanel(site: Site, messages: Messages, rows: Uint32Array): HTMLElement {
  const curves = curvesOf(messages, rows);
  const brushed = (from: number, to: number) => site.store.select([{ by: "latency", from, to }]);
  const names = percentiles(new Float64Array()).map(([name]) => name);
  const lines = curves.map((curve, index) => {
    const key = el("span.key");
    key.style.background = colourAt(index);
    const cells = percentiles(curve.sorted).map(([, ns]) => el("td.number", {}, duration(ns)));
    return el("tr", {}, el("td", {}, key, ` ${curve.label}`), ...cells);
  });
  const head = ["Messages", ...names].map((name, at) => el(at === 0 ? "th" : "th.number", { scope: "col" }, name));
  return el(
    "section.panel",
    {},
    el("header", {}, el("h2", {}, "Latency"), el("span.soft", {}, "within this host")),
    el(
      "div.wide.nowrap",
      { tabindex: "0", role: "region", "aria-label": "percentiles" },
      el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...lines)),
    ),
    el("h3.part", {}, "Share of messages up to this latency"),
    cdfPlot({ curves, tail: false, height: 132, brushed }).element,
    el("h3", {}, "Share of slower messages"),
    cdfPlot({ curves, tail: true, height: 150, brushed }).element,
  );
}

function curvesOf(messages: Messages, rows: Uint32Array): Curve[] {
  const sides: [string, number][] = [
    ["received", 0],
    ["sent", 1],
  ];
  const curves = sides.map(([label, sent]) => {
    const values: number[] = [];
    for (const row of rows) {
      const ns = messages.latency[row] ?? NaN;
      if (messages.sent[row] === sent && messages.sample[row] === 1 && !Number.isNaN(ns)) values.push(ns);
    }
    return { label, sorted: Float64Array.from(values).sort() };
  });
  return curves.filter((curve) => curve.sorted.length > 0);
}
