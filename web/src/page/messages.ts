// How long messages took, and why the slow ones did: distribution, each message by itself, causes, queueing, who had the
// CPUs.

import type { Cause, TailGroup } from "../data/contract";
import { type Messages, messagesOf } from "../data/messages";
import { button, el } from "../dom";
import { count, counted, duration, words } from "../format";
import { type Balloons, balloonNote, balloonPlot, balloonRows } from "../plot/balloon";
import { boxAxis } from "../plot/box";
import { type Curve, cdfPlot, percentiles } from "../plot/cdf";
import { asTable } from "../plot/plot";
import { rowsPassing } from "../state/filter";
import { colourAt, colourOf } from "../theme/palette";
import { extent } from "../plot/scale";
import { lifetimePanel } from "./lifetime";
import type { Page, Site } from "./page";
import { partNote } from "./recording";

export const messagesPage: Page = (site) => {
  const messages = site.side.once(messagesOf);
  if (messages.rows === 0) {
    const text =
      "This recording holds no messages. Record with `--detail messages` to see how long each took from the driver to the program; add `--keep p99,sample=100` to learn why the slow ones did.";
    return [el("section.panel.empty", {}, text)];
  }
  const rows = rowsPassing(site.state.filters, messages.facts, messages.rows);
  const groups = site.side.tail?.groups ?? [];
  return [
    ...partNote(site.side, ["received_messages", "sent_messages", "activity"]),
    el("div.wider", {}, balloonPanel(site, messages, rows), distributionPanel(site, messages, rows)),
    ...(site.state.message ? [lifetimePanel(site, messages, site.state.message)] : []),
    ...groups.map((group) => causesPanel(site, group)),
    ...(groups.length === 0
      ? [
          el(
            "section.panel.empty",
            {},
            "Why slow messages were slow is not known: what CPUs did was not kept. Record with `--detail messages --keep p99,sample=100`.",
          ),
        ]
      : []),
  ];
};

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
    messages.unknown > 0 ? ` ${counted(messages.unknown, "message")} without all times are not drawn.` : "";
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, "Each message"),
      el("span.soft", {}, `${balloonNote(options)}.${unknown} Drag to select, click for its life.`),
    ),
    plot.element,
    causeLegend(messages, rows),
    asTable(["at", "latency", "message", "cause"], () => balloonRows(options)),
  );
}

function causeLegend(messages: Messages, rows: Uint32Array): HTMLElement | null {
  const numbers = new Uint32Array(messages.causes.length + 1);
  for (const row of rows) {
    const cause = messages.cause[row] ?? 0;
    numbers[cause] = (numbers[cause] ?? 0) + 1;
  }
  const items = messages.causes.map((cause, index) => ({ cause, number: numbers[index + 1] ?? 0 }));
  const shown = items
    .filter((item) => item.number > 0)
    .sort((a, b) => b.number - a.number)
    .slice(0, 8);
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
  );
}

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
  const head = ["Up to", ...names].map((name, at) => el(at === 0 ? "th" : "th.number", { scope: "col" }, name));
  return el(
    "section.panel",
    {},
    el("header", {}, el("h2", {}, "How long they took"), el("span.soft", {}, "while this host had them")),
    el(
      "div.wide.nowrap",
      { tabindex: "0", role: "region", "aria-label": "percentiles" },
      el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...lines)),
    ),
    el("h3.part", {}, "Share that is no slower"),
    cdfPlot({ curves, tail: false, height: 132, brushed }).element,
    el("h3", {}, "Share that is slower"),
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
      if (messages.sent[row] === sent && !Number.isNaN(ns)) values.push(ns);
    }
    return { label, sorted: Float64Array.from(values).sort() };
  });
  return curves.filter((curve) => curve.sorted.length > 0);
}

function causesPanel(site: Site, group: TailGroup): HTMLElement {
  const who = group.application ?? "an unknown process";
  const tail = site.side.tail?.tail ?? "";
  const whole = site.state.filters.length > 0 ? "Of the whole recording, whatever the filters: " : "";
  const known = `${whole}${counted(group.tail.kept, "message")} of ${count(group.tail.messages)} in ${tail} are explained`;
  const longer =
    group.deviation_ns === null
      ? ""
      : `; they took ${duration(group.deviation_ns)} longer than the usual ${duration(group.usual_ns)}, on average`;
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, `Why messages ${group.direction} by ${who} were slow`),
      el("span.soft", {}, `${known}${longer}`),
    ),
    ...(group.tail.kept > 0
      ? [
          group.causes.length > 0 ? causeTable(site, group) : el("p.soft", {}, "No cause was found."),
          el("div.columns.part", {}, queueing(group), cores(group)),
        ]
      : [el("p.soft", {}, "Of none of them it was kept what CPUs did, so that no cause can be told.")]),
  );
}

function causeTable(site: Site, group: TailGroup): HTMLElement {
  const box = boxAxis(group.causes.map((cause) => cause.deviation_ns));
  const picked = site.state.selection.find((term) => term.by === "cause")?.value;
  const body = el("tbody");
  const fill = (open: string | undefined) => {
    body.replaceChildren(
      ...group.causes.flatMap((cause) =>
        causeRows(site, cause, box, cause.what === open, () => {
          const next = open === cause.what ? undefined : cause.what;
          site.store.select(next === undefined ? [] : [{ by: "cause", value: next }]);
          fill(next);
        }),
      ),
    );
  };
  fill(picked);
  const ends = group.causes.map((cause) => cause.deviation_ns);
  const [least, most] = [Math.min(...ends.map((it) => it.least)), Math.max(...ends.map((it) => it.most))];
  const added = `Added to those hit: ${duration(least)} to ${duration(most)}, logarithmic`;
  const heads: [string, boolean][] = [
    ["Cause", false],
    ["First of", true],
    ["Hit", true],
    [added, false],
    ["Median", true],
    ["In all", true],
    ["Such as", false],
  ];
  const head = heads.map(([name, number]) => el(number ? "th.number" : "th", { scope: "col" }, name));
  return el(
    "div.wide",
    { tabindex: "0", role: "region", "aria-label": "causes" },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), body),
  );
}

function causeRows(
  site: Site,
  cause: Cause,
  box: ReturnType<typeof boxAxis>,
  isOpen: boolean,
  toggle: () => void,
): HTMLElement[] {
  const key = el("span.key");
  key.style.background = colourOf(cause.rule);
  const name = button(cause.what, toggle, { class: "link", "aria-expanded": isOpen ? "true" : "false" });
  const examples = cause.examples
    .slice(0, 2)
    .flatMap((id, at) => [at > 0 ? ", " : "", button(id, () => site.store.go({ message: id }), { class: "link" })]);
  const line = el(
    "tr",
    { "aria-selected": isOpen ? "true" : null },
    el("td", {}, key, " ", name, el("div.soft", {}, `${words(cause.rule)}, ${words(cause.role)} core`)),
    el("td.number", {}, count(cause.first)),
    el("td.number", {}, count(cause.messages)),
    el("td", {}, box(cause.deviation_ns, colourOf(cause.rule))),
    el("td.number", {}, duration(cause.deviation_ns.median)),
    el("td.number", {}, duration(cause.sum_ns)),
    el("td", {}, ...examples),
  );
  if (!isOpen) {
    return [line];
  }
  const parts = cause.parts.map((part) =>
    el(
      "tr.parts",
      {},
      el("td", {}, part.name, el("div.soft", {}, words(part.anomaly))),
      el("td", {}),
      el("td.number", {}, count(part.messages)),
      el("td", {}, box(part.deviation_ns, colourOf(cause.rule))),
      el("td.number", {}, duration(part.deviation_ns.median)),
      el("td", {}),
      el("td", {}),
    ),
  );
  const advice = el("tr.parts", {}, el("td", { colspan: 7 }, el("div.do", {}, cause.advice)));
  return [line, advice, ...parts];
}

const QUEUED: Record<string, string> = {
  application_receive: "its thread, in calls that receive",
  application_request: "its thread, at what came in before",
  application_send: "its thread, in calls that send",
  kernel_receive: "the core that receives",
  kernel_send: "the core of the driver",
};

function queueing(group: TailGroup): HTMLElement {
  const { queue } = group;
  const told = `Ahead of a slow message there were ${queue.median} others in the median, ${count(queue.most)} at most; usual are ${queue.usual.toFixed(1)}.`;
  if (group.queueing.length === 0) {
    return el(
      "div",
      {},
      el("h3", {}, "Queueing"),
      el("p", {}, told),
      el("p.soft", {}, "No slow message waited behind more than is usual."),
    );
  }
  const box = boxAxis(group.queueing.map((it) => it.deviation_ns));
  const rows = group.queueing.map((it) =>
    el(
      "tr",
      {},
      el("td", {}, QUEUED[it.queued] ?? words(it.queued)),
      el("td.number", {}, count(it.messages)),
      el("td.number", {}, `+${it.ahead.median}`),
      el("td", {}, box(it.deviation_ns, colourOf("head_of_line_blocking"))),
      el("td.number", {}, duration(it.deviation_ns.median)),
    ),
  );
  const heads: [string, boolean][] = [
    ["Waited behind", false],
    ["Messages", true],
    ["Ahead", true],
    ["Longer", false],
    ["Median", true],
  ];
  const head = heads.map(([name, number]) => el(number ? "th.number" : "th", { scope: "col" }, name));
  return el(
    "div",
    {},
    el("h3", {}, "Queueing"),
    el("p", {}, told),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)),
  );
}

function cores(group: TailGroup): HTMLElement {
  const names = [...new Set(group.cores.flatMap((core) => core.contexts.map((context) => context.name)))];
  const colour = (name: string) =>
    name === "idle" ? colourOf("idle") : name === "interrupts" ? colourOf("irq") : colourAt(others.indexOf(name));
  // The sixth colour is that of interrupts.
  const others = names.filter((name) => name !== "idle" && name !== "interrupts");
  others.splice(5, 0, "interrupts");
  const most = Math.max(...group.cores.flatMap((core) => [core.ns, core.usual_ns]), 1);
  const bar = (
    core: TailGroup["cores"][number],
    of: (context: TailGroup["cores"][number]["contexts"][number]) => number,
  ) => {
    const told = core.contexts
      .filter((it) => of(it) > 0)
      .map((it) => `${it.name} ${duration(of(it))}`)
      .join(", ");
    const out = el("div.bar", { role: "img", "aria-label": told, title: told });
    for (const context of core.contexts) {
      const piece = el("i", { title: `${context.name} ${duration(of(context))}` });
      piece.style.width = `${(of(context) / most) * 100}%`;
      piece.style.background = colour(context.name);
      out.append(piece);
    }
    return out;
  };
  const rows = group.cores.flatMap((core) => [
    el(
      "tr",
      {},
      el("td", {}, `CPU ${core.cpu}`),
      el("td", {}, "slow"),
      el(
        "td.grow",
        {},
        bar(core, (it) => it.ns),
      ),
      el("td.number", {}, duration(core.ns)),
    ),
    el(
      "tr",
      {},
      el("td", {}),
      el("td.soft", {}, "usual"),
      el(
        "td.grow",
        {},
        bar(core, (it) => it.usual_ns),
      ),
      el("td.number", {}, duration(core.usual_ns)),
    ),
  ]);
  const keys = names.map((name) => {
    const key = el("span.key");
    key.style.background = colour(name);
    return el("li", {}, key, name);
  });
  return el(
    "div",
    {},
    el("h3", {}, "Who had the CPUs while they were under way"),
    el("table.cores", {}, el("tbody", {}, ...rows)),
    el("ul.legend", {}, ...keys),
  );
}
