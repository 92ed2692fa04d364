// Draws the stages of a connection over time: for each interval between two readings of the ledger, the share of each stage, from
// the worst below to "nothing to send" above; marks above it are losses and closed windows.

import { type TcpEvent, PROBLEM_KINDS, problemsOf } from "../data/events";
import { type Interval, intervals } from "../data/ledger";
import type { Side } from "../data/side";
import { el } from "../dom";
import { duration, percent, words } from "../format";
import { colourOf, ink } from "../theme/palette";
import { type Area, Plot, asTable, axisBelow } from "./plot";
import { linear, timeLabels } from "./scale";
import { hideTip, tipAt } from "./tip";

export interface StagePlot {
  side: Side;
  conn: string;
  stages: [string, string][];
  /** Range that is shown, ns from the start. */
  range: () => [number, number];
  /** Calls back when that has changed. */
  live?: (changed: () => void) => void;
  /** Range that is marked: the time of a finding. */
  marked?: [number, number];
  height?: number;
}

/** The plot with its table; `null`: the connection has no ledger. */
export function stagesOverTime(options: StagePlot): HTMLElement | null {
  const names = options.stages.map(([name]) => name);
  const parts = intervals(options.side, options.conn, names);
  if (parts.length === 0) {
    return null;
  }
  const events = problemsOf(options.side, options.conn);
  const height = options.height ?? 132;
  const areaOf = (width: number): Area => ({ left: 8, top: 14, width: width - 16, height: height - 38 });
  const scaleOf = (width: number) => {
    const area = areaOf(width);
    const [from, to] = options.range();
    return linear(from, to, area.left, area.left + area.width);
  };
  const plot = new Plot("stages of the connection over time", height, (context, width) => {
    const [area, scale] = [areaOf(width), scaleOf(width)];
    axisBelow(context, area, scale, timeLabels);
    context.save();
    context.beginPath();
    context.rect(area.left, 0, area.width, height);
    context.clip();
    for (const part of parts) {
      drawInterval(context, area, scale.at(part.fromNs), scale.at(part.toNs), part, names);
    }
    drawEvents(context, area, events, scale.at);
    context.restore();
    if (options.marked) {
      drawMarked(context, area, scale.at(options.marked[0]), scale.at(options.marked[1]));
    }
  });
  options.live?.(() => plot.redraw());
  plot.canvas.addEventListener("mousemove", (event) => {
    const at = scaleOf(plot.element.clientWidth).value(event.offsetX);
    const part = parts.find((part) => part.fromNs <= at && at <= part.toNs);
    if (part) {
      tipAt(event, inWords(part));
    } else {
      hideTip();
    }
  });
  plot.canvas.addEventListener("mouseleave", hideTip);
  const table = asTable(["from", "to", "stages", "events"], () =>
    parts.map((part) => {
      const within = events.filter((event) => event.atNs >= part.fromNs && event.atNs < part.toNs);
      const [title, ...stages] = inWords(part);
      const kinds = within.map((event) => PROBLEM_KINDS[event.kind] ?? event.kind);
      return [title?.split(" – ")[0] ?? "", title?.split(" – ")[1] ?? "", stages.join(", "), kinds.join(", ")];
    }),
  );
  return el("div", {}, plot.element, table);
}

/** Draws the shares of stages in one interval. */
function drawInterval(
  context: CanvasRenderingContext2D,
  area: Area,
  left: number,
  right: number,
  part: Interval,
  names: string[],
): void {
  const whole = part.toNs - part.fromNs;
  let bottom = area.top + area.height;
  for (const name of names) {
    const ns = part.stages.get(name);
    if (ns) {
      const height = (Math.min(ns, whole) / whole) * area.height;
      context.fillStyle = colourOf(name);
      context.fillRect(left, bottom - height, Math.max(1, right - left + 0.5), height);
      bottom -= height;
    }
  }
}

/** Draws a mark for each event of TCP. */
function drawEvents(
  context: CanvasRenderingContext2D,
  area: Area,
  events: TcpEvent[],
  at: (ns: number) => number,
): void {
  context.fillStyle = ink("ink");
  for (const event of events) {
    const x = at(event.atNs);
    context.beginPath();
    context.moveTo(x, area.top);
    context.lineTo(x - 4, area.top - 8);
    context.lineTo(x + 4, area.top - 8);
    context.fill();
  }
}

function drawMarked(context: CanvasRenderingContext2D, area: Area, left: number, right: number): void {
  context.fillStyle = ink("mark");
  context.fillRect(left, area.top + area.height - 1, Math.max(2, right - left), 3);
}

function inWords(part: Interval): string[] {
  const whole = part.toNs - part.fromNs;
  const stages = [...part.stages].sort((a, b) => b[1] - a[1]);
  const shares = stages.map(([name, ns]) => `${words(name)} ${percent(ns / whole)}`);
  return [`${duration(part.fromNs)} – ${duration(part.toNs)}`, ...shares];
}
