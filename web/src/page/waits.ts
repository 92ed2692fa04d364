// What threads waited for: objects, each thread over time with what the program reported, and one object in full.

import type { FewSlow, WaitGroup, WaitPart } from "../data/contract";
import { type Counter, counterFacts, countersOf, tasksOf, valueAt, writeValue } from "../data/counters";
import { type Sum, type Waits, objectTitle, sums, waitsOf } from "../data/waits";
import { button, el, short } from "../dom";
import { bytes, count, counted, duration, percent, words } from "../format";
import { flameGraph, frameTitle } from "../plot/flame";
import { countDurations, histogram } from "../plot/histogram";
import { asTable } from "../plot/plot";
import { extent } from "../plot/scale";
import { series } from "../plot/series";
import { type Lane, threadsPlot } from "../plot/threads";
import { rowsPassing } from "../state/filter";
import { colourAt } from "../theme/palette";
import { grid } from "./grid";
import type { Page, Site } from "./page";
import { partNote } from "./recording";

/** Threads that get a lane: those that waited longest. */
const LANES = 16;
/** Objects that get a colour of their own. */
const COLOURS = 8;
/** Counters that are drawn. */
const COUNTERS = 6;

export const waitsPage: Page = (site) => {
  const waits = site.side.once(waitsOf);
  if (waits.rows === 0) {
    return [
      el(
        "section.panel.empty",
        {},
        "This recording holds no waits. Record with `--detail waits` to see what threads waited for.",
      ),
      ...countersPanel(site),
    ];
  }
  const rows = rowsPassing(site.state.filters, waits.facts, waits.rows);
  const objects = sums(site.side, waits, rows);
  const rank = new Map(objects.slice(0, COLOURS).map((sum, index) => [sum.name, index]));
  const colour = (name: string) => colourAt(rank.get(name) ?? COLOURS);
  const picked = objects.find((sum) => sum.name === site.state.object) ?? objects[0];
  return [
    ...partNote(site.side, ["waits", "tasks"]),
    threadsPanel(site, waits, rows, objects, colour),
    ...countersPanel(site),
    el(
      "div.wider",
      {},
      objectsPanel(site, objects, picked, colour),
      picked ? objectPanel(site, waits, rows, picked) : null,
    ),
  ];
};

/** Returns the plot of waits by thread over time. */
function threadsPanel(
  site: Site,
  waits: Waits,
  rows: Uint32Array,
  objects: Sum[],
  colour: (name: string) => string,
): HTMLElement {
  const lanes = lanesOf(site, waits, rows);
  const whole = wholeOf(site, waits);
  const colours = ["", ...waits.objects].map(colour);
  const counters = site.side.once(countersOf);
  const plot = threadsPlot({
    waits,
    lanes: lanes.slice(0, LANES),
    store: site.store,
    whole,
    colour: (object) => colours[object] ?? colourAt(COLOURS),
    describe: (row) => describeWait(waits, counters, row),
    pick: (row) => {
      const object = waits.objects[(waits.object[row] ?? 0) - 1] ?? "";
      site.store.go({ object, selection: [{ by: "object", value: object }] });
    },
  });
  site.live(() => plot.redraw());
  const keys = objects.slice(0, COLOURS).map((sum) => {
    const key = el("span.key");
    key.style.background = colour(sum.name);
    return el("li", { title: sum.name }, key, short(sum.name, 46));
  });
  const more = lanes.length > LANES ? ` The ${LANES} with the longest waits; ${count(lanes.length - LANES)} more.` : "";
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, "Threads"),
      el("span.soft", {}, `Gaps are time on or for a CPU.${more} Drag to select, click a wait for its object.`),
    ),
    plot.element,
    el(
      "ul.legend",
      { "aria-label": "Objects" },
      ...keys,
      objects.length > COLOURS ? el("li.soft", {}, "grey: others") : null,
    ),
    asTable(["thread", "waits", "blocked"], () =>
      lanes.map((lane) => [lane.title, count(lane.rows.length), duration(blockedOf(waits, lane.rows))]),
    ),
  );
}

/** Returns the whole time axis. Threads and counters share it. */
function wholeOf(site: Site, waits: Waits): [number, number] {
  return extent(waits.begin, waits.end, site.side.report.span_ns);
}

/** Returns a lane for each thread, the one that waited most first. */
function lanesOf(site: Site, waits: Waits, rows: Uint32Array): Lane[] {
  const byThread = new Map<number, number[]>();
  for (const row of rows) {
    const code = waits.thread[row] ?? 0;
    const list = byThread.get(code);
    if (list) list.push(row);
    else byThread.set(code, [row]);
  }
  const tasks = site.side.once(tasksOf);
  const lanes = [...byThread].map(([code, list]) => {
    const tid = waits.threads[code - 1] ?? "";
    const pid = waits.word(list[0] ?? 0, "pid");
    const title = pid === tid ? site.side.process(pid) : `${site.side.comm(pid) ?? pid ?? ""} thread ${tid}`;
    list.sort((a, b) => (waits.begin[a] ?? 0) - (waits.begin[b] ?? 0));
    return {
      title: short(title, 40),
      tid,
      rows: Uint32Array.from(list),
      tasks: tasks.filter((task) => task.tid === tid),
    };
  });
  const blocked = new Map(lanes.map((lane) => [lane, blockedOf(waits, lane.rows)]));
  return lanes.sort((a, b) => (blocked.get(b) ?? 0) - (blocked.get(a) ?? 0));
}

function blockedOf(waits: Waits, rows: Uint32Array): number {
  return rows.reduce((sum, row) => sum + waits.blocked(row), 0);
}

/** Returns the lines of the tooltip of a wait. */
function describeWait(waits: Waits, counters: Counter[], row: number): string[] {
  const [begin, end, blocked] = [waits.begin[row] ?? 0, waits.end[row] ?? 0, waits.blocked(row)];
  const runq = end - begin - blocked;
  const moved = waits.word(row, "call_bytes");
  const waker = waits.word(row, "waker");
  const by =
    waker === "thread"
      ? `thread ${waits.word(row, "waker_tid") ?? "not known"}`
      : waker === "interrupt"
        ? "an interrupt"
        : "not seen";
  const pid = waits.word(row, "pid");
  const values = counters
    .filter((counter) => counter.pid === pid)
    .slice(0, 5)
    .flatMap((counter) => {
      const value = valueAt(counter, begin);
      return value === null ? [] : [`${counter.name}: ${writeValue(counter, value)} when it began`];
    });
  return [
    `${duration(blocked)} ${short(waits.objects[(waits.object[row] ?? 0) - 1] ?? "", 90)}`,
    `${words(waits.word(row, "kind") ?? "")}, from ${duration(begin)} on`,
    runq > 0 ? `then ${duration(runq)} run-queue delay` : "",
    moved === null ? "" : `${bytes(Number(moved))} ${waits.word(row, "call_sends") === "true" ? "sent" : "received"} by its call`,
    `woken by: ${by}`,
    ...values,
  ].filter((line) => line !== "");
}

/** Returns the plots of counters of the program. */
function countersPanel(site: Site): HTMLElement[] {
  const all = site.side.once(countersOf);
  const shown = rowsPassing(site.state.filters, counterFacts(all), all.length);
  const counters = [...shown].flatMap((row) => all[row] ?? []);
  if (counters.length === 0) {
    return [];
  }
  const isOfMany = new Set(all.map((counter) => counter.pid)).size > 1;
  const title = (counter: Counter) =>
    isOfMany ? `${counter.name}, ${site.side.process(counter.pid)}` : counter.name;
  const range = (): [number, number] => site.store.state.view ?? wholeOf(site, site.side.once(waitsOf));
  const brushed = (from: number, to: number) => site.store.select([{ by: "time", from, to }]);
  const plots = counters.slice(0, COUNTERS).map((counter, index) => {
    const write = (value: number) => writeValue(counter, value);
    const line = { label: counter.name, colour: colourAt(index), values: counter.values, steps: true };
    return el(
      "div",
      {},
      el("h3", {}, title(counter)),
      series({
        label: counter.name,
        times: counter.times,
        lines: [line],
        range,
        live: site.live,
        brushed,
        write,
        height: 110,
      }),
    );
  });
  const more = counters.length > COUNTERS ? `${counters.length - COUNTERS} more` : "";
  return [
    el(
      "section.panel",
      {},
      el("header", {}, el("h2", {}, isOfMany ? "Counters of programs" : "Counters of the program"), el("span.soft", {}, more)),
      ...plots,
    ),
  ];
}

/** Returns the table of objects that threads waited for. */
function objectsPanel(
  site: Site,
  objects: Sum[],
  picked: Sum | undefined,
  colour: (name: string) => string,
): HTMLElement {
  const total = objects.reduce((sum, object) => sum + object.blockedNs, 0);
  const keyed = (sum: Sum) => {
    const key = el("span.key");
    key.style.background = colour(sum.name);
    return el("span.clip", { title: sum.name }, key, ` ${short(sum.name, 120)}`);
  };
  const table = grid({
    label: "objects",
    rows: objects,
    words: (sum) => `${sum.name} ${sum.kind}`,
    pick: (sum) => site.store.go({ object: sum.name, selection: [{ by: "object", value: sum.name }] }),
    isPicked: (sum) => sum === picked,
    columns: [
      { title: "Object", key: (sum) => sum.name, cell: keyed },
      { title: "Kind", key: (sum) => sum.kind, cell: (sum) => words(sum.group?.lock ?? sum.kind) },
      { title: "Waits", number: true, key: (sum) => sum.count, cell: (sum) => count(sum.count) },
      { title: "Blocked", number: true, key: (sum) => sum.blockedNs, cell: (sum) => duration(sum.blockedNs) },
      {
        title: "Share",
        number: true,
        key: (sum) => sum.blockedNs,
        cell: (sum) => percent(total > 0 ? sum.blockedNs / total : 0),
      },
      { title: "Longest", number: true, key: (sum) => sum.longestNs, cell: (sum) => duration(sum.longestNs) },
    ],
  });
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, counted(objects.length, "object")),
      el("span.soft", {}, "that threads waited for, longest total first"),
    ),
    table,
  );
}

/** Returns the panel of the selected object. */
function objectPanel(site: Site, waits: Waits, rows: Uint32Array, picked: Sum): HTMLElement {
  const { group } = picked;
  const isAll = site.state.filters.length === 0 && group !== undefined;
  const own = rows.filter((row) => waits.objects[(waits.object[row] ?? 0) - 1] === picked.name);
  const cells = isAll ? group.histogram : countDurations(Array.from(own, (row) => waits.blocked(row)));
  const boundary = group?.populations?.boundary_ns ?? null;
  const plot = histogram(cells, boundary, 190);
  return el(
    "section.panel",
    { "aria-label": `Waits for ${picked.name}` },
    el("header", {}, el("h2", {}, short(picked.name, 90))),
    el(
      "p",
      {},
      `${counted(picked.count, "wait")}, blocked for ${duration(picked.blockedNs)}.`,
      group?.durations && isAll
        ? ` p50 ${duration(group.durations.p50_ns)}, p99 ${duration(group.durations.p99_ns)}, max ${duration(group.durations.max_ns)}.`
        : "",
    ),
    populations(group),
    isAll ? fewSlow(group.few_slow) : null,
    el("h3.part", {}, "Waits by duration"),
    plot.element,
    asTable(["from", "to", "waits"], () =>
      cells.map((cell) => [duration(cell.from_ns), duration(cell.to_ns), count(cell.count)]),
    ),
    ...(group
      ? [
          parts(site, "Threads", group.threads, "tid"),
          parts(site, "Woken by", group.wakers, "tid"),
          stacks("Stacks in the program", group.stacks),
          stacks("Stacks in the kernel", group.kernel_stacks),
        ]
      : []),
  );
}

/** Returns the two kinds of waits, fast and slow; `null`: there is one kind. */
function populations(group: WaitGroup | undefined): HTMLElement | null {
  if (!group?.populations) {
    return null;
  }
  const { fast, slow, boundary_ns } = group.populations;
  const key = (index: number) => {
    const out = el("span.key");
    out.style.background = colourAt(index);
    return out;
  };
  return el(
    "p",
    {},
    "Two populations: ",
    key(0),
    ` ${count(fast.count)} fast (p50 ${duration(fast.p50_ns)}) and `,
    key(1),
    ` ${count(slow.count)} slow (p50 ${duration(slow.p50_ns)}, total ${duration(slow.blocked_ns)}); the boundary is ${duration(boundary_ns)}.`,
  );
}

/** Draws slow waits that are too few for a population. */
function fewSlow(few: FewSlow | undefined): HTMLElement | null {
  if (!few) {
    return null;
  }
  const times = new Map<string, number>();
  for (const ns of few.durations_ns) {
    times.set(duration(ns), (times.get(duration(ns)) ?? 0) + 1);
  }
  const each = Array.from(times, ([text, number]) => (number > 1 && times.size > 1 ? `${text} (${number} times)` : text));
  return el(
    "p",
    {},
    `${counted(few.durations_ns.length, "slow wait")} of about ${each.join(", ")}; the others took at most about ` +
      `${duration(few.others_max_ns)}. Fewer than 12 are too few to show two kinds of waits.`,
  );
}

/** Returns members of a group with their shares of its time; `null`: there is none. */
function parts(site: Site, title: string, all: WaitPart[], by: "tid"): HTMLElement | null {
  if (all.length === 0) {
    return null;
  }
  const rows = all.slice(0, 6).map((part) => {
    const select = () => site.store.select([{ by, value: String(part.tid) }]);
    const name = short(objectTitle(part), 60);
    const at = part.exact ? "" : "at least ";
    return el(
      "tr",
      {},
      el("td", {}, part.tid === null ? name : button(name, select, { class: "link" })),
      el("td.number", {}, `${at}${count(part.count)}`),
      el("td.number", {}, `${at}${duration(part.blocked_ns)}`),
    );
  });
  return el("div.part", {}, el("h3", {}, title), el("table", {}, el("tbody", {}, ...rows)), others(all, rows.length));
}

/** Returns the number of rows that are not shown; `null`: all are shown. */
function others(all: WaitPart[], shown: number): HTMLElement | null {
  return all.length > shown ? el("p.soft", {}, `${count(all.length - shown)} more`) : null;
}

/** Returns the stacks of a group with their shares of its time; `null`: there is none. */
function stacks(title: string, all: WaitPart[]): HTMLElement | null {
  if (all.length === 0) {
    return null;
  }
  const shown = all.slice(0, 4).map((part, index) => {
    const frames = part.stack?.frames ?? [];
    const lines = frames.map((frame) =>
      el(
        "li",
        {},
        el("code", {}, frameTitle(frame)),
        frame.source ? el("span.soft", {}, ` ${frame.source}${frame.line ? `:${frame.line}` : ""}`) : null,
      ),
    );
    const head = el(
      "summary",
      {},
      `${short(part.name, 80)}: ${duration(part.blocked_ns)} in ${counted(part.count, "wait")}`,
    );
    return el(
      "details",
      { open: index === 0 && frames.length > 0 && frames.length < 12 },
      head,
      el("ol.stack", {}, ...lines),
    );
  });
  return el("div.part", {}, el("h3", {}, title), all.length > 1 && flameGraph(all, title), ...shown, others(all, shown.length));
}
