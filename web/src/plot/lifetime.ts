// The life of one message: its parts above, then a lane a CPU with nested spans of what that did, and the stamps as
// vertical lines through all of it.

import type { Span } from "../data/spans";
import { duration } from "../format";
import { colourOf, ink } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow } from "./plot";
import { type Scale, linear, timeLabels } from "./scale";

export interface Stamp {
  atNs: number;
  name: string;
  /** The part of the way that ends here; `null`: none. */
  part: string | null;
}

export interface Life {
  label: string;
  /** In order. */
  stamps: Stamp[];
  spans: Span[];
  /** Thread of the message. */
  tid: string | null;
  /** What is shown at first, ns from the start. */
  whole: [number, number];
  /** CPUs that had the message, and for what. */
  roles: Map<string, string>;
  /** What an ordinary message met; what this one met besides is outlined. Absent: there is none to compare with. */
  usual?: Set<string>;
  /** Spans that took longer only by what lies within them. */
  explained?: Set<Span>;
}

/** What a span is, to be met again in another message. */
export function sort(span: Span): string {
  return `${span.kind} ${span.name ?? ""}`;
}

const ROW = 16;
const PARTS = 20;
const GAP = 22;

interface Lane {
  cpu: string;
  spans: Span[];
  depth: number;
  top: number;
}

export function lifetimePlot(life: Life): Plot {
  const lanes = lanesOf(life);
  const bottom = lanes.reduce((end, lane) => Math.max(end, lane.top + lane.depth * ROW), PARTS + 24);
  const height = bottom + 34;
  let view: [number, number] = life.whole;
  const area = (width: number): Area => ({ left: 8, top: 22, width: width - 16, height: bottom - 16 });
  const x = (width: number): Scale => linear(view[0], view[1], 8, width - 8);
  const plot = new Plot(life.label, height, (context, width) => {
    const scale = x(width);
    const begin = life.stamps[0]?.atNs ?? 0;
    const fromBegin = linear(view[0] - begin, view[1] - begin, 8, width - 8);
    axisBelow(context, area(width), fromBegin, timeLabels);
    context.save();
    context.beginPath();
    context.rect(8, 0, width - 16, height);
    context.clip();
    for (const lane of lanes) {
      drawLane(context, life, lane, scale, width);
    }
    drawParts(context, life, scale, bottom);
    context.restore();
  });
  const width = () => plot.element.clientWidth;
  gestures(plot, {
    area: () => area(width()),
    x: () => x(width()),
    whole: life.whole,
    zoom: (next) => {
      view = next ?? life.whole;
      plot.redraw();
    },
    brush: (next) => {
      view = next;
      plot.redraw();
    },
    hover: (px, py) => said(life, lanes, x(width()), px, py),
  });
  return plot;
}

function lanesOf(life: Life): Lane[] {
  const byCpu = new Map<string, Span[]>();
  for (const span of life.spans) {
    const cpu = span.cpu ?? "not known";
    byCpu.set(cpu, [...(byCpu.get(cpu) ?? []), span]);
  }
  // CPUs that had the message first.
  const cpus = [...byCpu.keys()].sort(
    (a, b) => Number(life.roles.has(b)) - Number(life.roles.has(a)) || Number(a) - Number(b),
  );
  let top = PARTS + 30;
  return cpus.map((cpu) => {
    const spans = byCpu.get(cpu) ?? [];
    const depth = spans.reduce((most, span) => Math.max(most, span.depth), 0) + 1;
    const lane = { cpu, spans, depth, top: top + GAP - 6 };
    top = lane.top + depth * ROW + 6;
    return lane;
  });
}

function drawLane(context: CanvasRenderingContext2D, life: Life, lane: Lane, x: Scale, width: number): void {
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = ink("soft");
  const role = life.roles.get(lane.cpu);
  context.fillText(`CPU ${lane.cpu}${role ? `, ${role}` : ""}`, 10, lane.top - 5);
  context.textBaseline = "middle";
  for (const span of lane.spans) {
    const left = Math.max(8, x.at(span.begin));
    const right = Math.min(width - 8, x.at(span.end));
    if (right < 8 || left > width - 8) {
      continue;
    }
    const y = lane.top + span.depth * ROW;
    const isOther = span.tid !== null && span.tid !== life.tid && span.kind === "task";
    const isFaint = isOther || life.explained?.has(span) === true;
    context.globalAlpha = isFaint ? 0.4 : span.kind === "idle" ? 0.6 : 0.85;
    context.fillStyle = colourOf(span.kind);
    context.fillRect(left, y, Math.max(1, right - left - 0.5), ROW - 1);
    context.globalAlpha = 1;
    if (life.usual && !life.usual.has(sort(span)) && right - left > 2) {
      context.strokeStyle = ink("ink");
      context.lineWidth = 1.5;
      context.strokeRect(left + 0.75, y + 0.75, right - left - 2, ROW - 2.5);
      context.lineWidth = 1;
    }
    const text = span.name ?? span.kind;
    if (right - left > 34) {
      context.fillStyle = isFaint || span.kind === "idle" ? ink("ink") : letters(span.kind);
      context.fillText(fitted(context, text, right - left - 8), left + 4, y + ROW / 2);
    }
  }
}

/** Ink that is read on a kind's colour. */
function letters(kind: string): string {
  return kind === "function" || kind === "irq" || kind === "syscall" || kind === "migration" ? "#ffffff" : "#14181d";
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) {
    return text;
  }
  const letter = context.measureText("x").width;
  const most = Math.max(1, Math.floor(width / letter) - 1);
  return `${text.slice(0, most)}…`;
}

function drawParts(context: CanvasRenderingContext2D, life: Life, x: Scale, bottom: number): void {
  let from = life.stamps[0]?.atNs ?? 0;
  context.textBaseline = "middle";
  for (const stamp of life.stamps) {
    const [left, right] = [x.at(from), x.at(stamp.atNs)];
    if (stamp.part && right > left) {
      context.fillStyle = colourOf(stamp.part);
      context.fillRect(left, 0, Math.max(1, right - left), PARTS - 4);
      const text = `${stamp.part.replaceAll("_", " ")} ${duration(stamp.atNs - from)}`;
      if (context.measureText(text).width < right - left - 8) {
        context.fillStyle = ["run_queue", "wakeup", "network", "qdisc", "tcp", "output"].includes(stamp.part)
          ? "#ffffff"
          : "#14181d";
        context.textAlign = "left";
        context.fillText(text, left + 4, (PARTS - 4) / 2);
      }
    }
    from = stamp.atNs;
  }
  drawStamps(context, life, x, bottom);
}

function drawStamps(context: CanvasRenderingContext2D, life: Life, x: Scale, bottom: number): void {
  context.strokeStyle = ink("ink");
  context.setLineDash([3, 3]);
  context.textBaseline = "alphabetic";
  let free = -Infinity;
  for (const stamp of life.stamps) {
    const at = Math.round(x.at(stamp.atNs)) + 0.5;
    context.globalAlpha = 0.55;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, bottom + 4);
    context.stroke();
    context.globalAlpha = 1;
    const size = context.measureText(stamp.name).width;
    const left = Math.max(8, Math.min(at + 3, x.at(x.to) - size));
    // A name that would lie on the one before is left to the pointer and the table.
    if (left > free) {
      context.fillStyle = ink("soft");
      context.textAlign = "left";
      context.fillText(stamp.name, left, PARTS + 12);
      free = left + size + 8;
    }
  }
  context.setLineDash([]);
}

function said(life: Life, lanes: Lane[], x: Scale, px: number, py: number): string[] | null {
  const at = x.value(px);
  const first = life.stamps[0]?.atNs ?? 0;
  if (py < PARTS + 16) {
    const index = life.stamps.findIndex((stamp) => stamp.atNs >= at);
    const [from, to] = [life.stamps[index - 1], life.stamps[index]];
    return from && to
      ? [
          `${(to.part ?? "").replaceAll("_", " ")} ${duration(to.atNs - from.atNs)}`,
          `from: ${from.name}`,
          `to: ${to.name}`,
        ]
      : null;
  }
  const lane = lanes.find((lane) => py >= lane.top && py < lane.top + lane.depth * ROW);
  if (!lane) {
    return null;
  }
  const depth = Math.floor((py - lane.top) / ROW);
  const span = lane.spans.find((span) => span.depth === depth && span.begin <= at && at <= span.end);
  if (!span) {
    return null;
  }
  const seen = span.whole ? "" : " at least";
  const why = life.explained?.has(span) ? ["what it took longer is explained by what lies within it"] : [];
  const who = span.tid === null ? [] : [`thread ${span.tid}${span.tid === life.tid ? ", the message's own" : ""}`];
  return [
    `${span.name ?? span.kind}`,
    `${span.kind}, ${duration(span.end - span.begin)}${seen}`,
    `from ${duration(span.begin - first)} on`,
    ...who,
    ...why,
  ];
}

/** The spans as a table. */
export function spanRows(life: Life): (string | number)[][] {
  const first = life.stamps[0]?.atNs ?? 0;
  const stamps = life.stamps.map((stamp) => [duration(stamp.atNs - first), "", "stamp", stamp.name, ""]);
  const spans = life.spans.map((span) => [
    duration(span.begin - first),
    duration(span.end - span.begin),
    `${"· ".repeat(span.depth)}${span.kind}`,
    span.name ?? "",
    span.cpu ?? "",
  ]);
  return [...stamps, ...spans];
}
