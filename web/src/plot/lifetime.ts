// The life of one message: its parts above, then a lane a CPU with nested spans of what that did, and the stamps as
// vertical lines through all of it.

import type { Explaining } from "../data/explaining";
import type { Span } from "../data/spans";
import type { Part, Step } from "../data/steps";
import { duration, words } from "../format";
import { colourOf, ink, inkOn } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow } from "./plot";
import { type Scale, linear, timeLabels } from "./scale";

export interface Life {
  label: string;
  /** Its events in order, and the parts of its latency. */
  steps: Step[];
  parts: Part[];
  spans: Span[];
  /** Thread of the message. */
  tid: string | null;
  /** All that can be shown, ns from the start, and what is shown at first. */
  whole: [number, number];
  view: [number, number];
  /** CPUs that had the message, and for what. */
  roles: Map<string, string>;
  /** Spans that explain why it took longer than usual. */
  explaining: Explaining;
  /** How a cause of the message is called. */
  cause: (index: number) => string;
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

/** Makes the plot of one message: its parts, its steps, and the CPUs beside it. */
export function lifetimePlot(life: Life): Plot {
  const lanes = lanesOf(life);
  const bottom = lanes.reduce((end, lane) => Math.max(end, lane.top + lane.depth * ROW), PARTS + 24);
  const height = bottom + 34;
  let view: [number, number] = life.view;
  const area = (width: number): Area => ({ left: 8, top: 22, width: width - 16, height: bottom - 16 });
  const x = (width: number): Scale => linear(view[0], view[1], 8, width - 8);
  const plot = new Plot(life.label, height, (context, width) => {
    const scale = x(width);
    const begin = life.steps[0]?.atNs ?? 0;
    const fromBegin = linear(view[0] - begin, view[1] - begin, 8, width - 8);
    axisBelow(context, area(width), fromBegin, timeLabels);
    context.save();
    context.beginPath();
    context.rect(8, 0, width - 16, height);
    context.clip();
    for (const lane of lanes) {
      drawLane(context, life, lane, scale, width);
    }
    drawParts(context, life, scale);
    drawSteps(context, life, scale, bottom);
    for (const lane of lanes) {
      const role = life.roles.get(lane.cpu);
      drawName(context, `CPU ${lane.cpu}${role ? `, ${role}` : ""}`, 10, lane.top - 5);
    }
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
    hover: (px, py) => describe(life, lanes, x(width()), px, py),
  });
  return plot;
}

/** Returns a lane for each CPU, those that had the message first. */
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

/** Draws the spans of a CPU. */
function drawLane(context: CanvasRenderingContext2D, life: Life, lane: Lane, x: Scale, width: number): void {
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const span of lane.spans) {
    const left = Math.max(8, x.at(span.begin));
    const right = Math.min(width - 8, x.at(span.end));
    if (right < 8 || left > width - 8) {
      continue;
    }
    const y = lane.top + span.depth * ROW;
    const isOther = span.tid !== null && span.tid !== life.tid && span.kind === "task";
    const explains = life.explaining.has(span.row);
    const isFaint = isOther && !explains;
    context.globalAlpha = isFaint ? 0.4 : span.kind === "idle" ? 0.6 : 0.85;
    context.fillStyle = colourOf(span.kind);
    context.fillRect(left, y, Math.max(1, right - left - 0.5), ROW - 1);
    context.globalAlpha = 1;
    if (explains) {
      context.strokeStyle = ink("ink");
      context.lineWidth = 2;
      context.strokeRect(left + 1, y + 1, Math.max(1, right - left - 2.5), ROW - 3);
      context.lineWidth = 1;
    }
    const text = span.name ?? span.kind;
    if (right - left > 34) {
      context.fillStyle = isFaint || span.kind === "idle" ? ink("ink") : inkOn(colourOf(span.kind));
      context.fillText(fitted(context, text, right - left - 8), left + 4, y + ROW / 2);
    }
  }
}

function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) {
    return text;
  }
  const letter = context.measureText("x").width;
  const most = Math.max(1, Math.floor(width / letter) - 1);
  return `${text.slice(0, most)}…`;
}

/** Draws the parts of the message. */
function drawParts(context: CanvasRenderingContext2D, life: Life, x: Scale): void {
  const end = x.at(x.to);
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const part of life.parts) {
    const [left, right] = [x.at(part.from.atNs), x.at(part.to.atNs)];
    if (right <= left) continue;
    const colour = colourOf(part.part);
    context.fillStyle = colour;
    context.fillRect(left, 0, Math.max(1, right - left), PARTS - 4);
    // What goes on beyond the axis is named at that part of it which is seen.
    const text = `${partText(part)}${right > end + 1 ? " →" : ""}`;
    const [from, to] = [Math.max(left, x.at(x.from)), Math.min(right, end)];
    if (context.measureText(text).width < to - from - 8) {
      context.fillStyle = inkOn(colour);
      context.fillText(text, from + 4, (PARTS - 4) / 2);
    }
  }
}

function partText(part: Part): string {
  return `${part.name} ${duration(part.to.atNs - part.from.atNs)}`;
}

function stepText(step: Step): string {
  return Number.isNaN(step.errorNs) ? step.text : `${step.text} ± ${duration(step.errorNs)}`;
}

/** Draws the steps of the message. */
function drawSteps(context: CanvasRenderingContext2D, life: Life, x: Scale, bottom: number): void {
  context.strokeStyle = ink("ink");
  context.globalAlpha = 0.55;
  context.setLineDash([3, 3]);
  for (const step of life.steps) {
    const at = Math.round(x.at(step.atNs)) + 0.5;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, bottom + 4);
    context.stroke();
  }
  context.setLineDash([]);
  context.globalAlpha = 1;
  let free = -Infinity;
  for (const step of life.steps) {
    const at = x.at(step.atNs);
    const size = context.measureText(step.text).width;
    const left = at + 3 + size <= x.at(x.to) ? at + 3 : at - 4 - size;
    // A name that would lie on the one before is left to the pointer and the table.
    if (left > free && left >= x.at(x.from) && at <= x.at(x.to)) {
      drawName(context, step.text, left, PARTS + 12);
      free = left + size + 8;
    }
  }
}

/** A name that is read above lines. */
function drawName(context: CanvasRenderingContext2D, text: string, left: number, bottom: number): void {
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  context.fillStyle = ink("panel");
  context.fillRect(left - 1, bottom - 11, context.measureText(text).width + 2, 14);
  context.fillStyle = ink("soft");
  context.fillText(text, left, bottom);
}

/** Returns the lines of the tooltip at a place of the plot; `null`: nothing is there. */
function describe(life: Life, lanes: Lane[], x: Scale, px: number, py: number): string[] | null {
  const at = x.value(px);
  const first = life.steps[0]?.atNs ?? 0;
  if (py < PARTS + 16) {
    const part = life.parts.find((it) => it.from.atNs <= at && at < it.to.atNs);
    return part ? [partText(part), `from: ${stepText(part.from)}`, `to: ${stepText(part.to)}`] : null;
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
  const why = explanations(life, span).map((text) => `explains the message: ${text}`);
  const who = span.tid === null ? [] : [`thread ${span.tid}${span.tid === life.tid ? ", the message's own" : ""}`];
  return [
    `${span.name ?? span.kind}`,
    `${span.kind}, ${duration(span.end - span.begin)}${seen}`,
    `from ${duration(span.begin - first)} on`,
    ...who,
    ...why,
  ];
}

function explanations(life: Life, span: Span): string[] {
  const all = life.explaining.get(span.row) ?? [];
  return all.map(({ cause, anomaly }) => `${life.cause(cause)} (${words(anomaly)})`);
}

/** All of it as a table. */
export function lifeRows(life: Life): (string | number)[][] {
  const first = life.steps[0]?.atNs ?? 0;
  const steps = life.steps.map((step) => [duration(step.atNs - first), "", "step", stepText(step), "", ""]);
  const parts = life.parts.map((part) => [
    duration(part.from.atNs - first),
    duration(part.to.atNs - part.from.atNs),
    "part",
    part.name,
    "",
    "",
  ]);
  const spans = life.spans.map((span) => [
    duration(span.begin - first),
    duration(span.end - span.begin),
    `${"· ".repeat(span.depth)}${span.kind}`,
    span.name ?? "",
    span.cpu ?? "",
    explanations(life, span).join("; "),
  ]);
  return [...steps, ...parts, ...spans];
}
