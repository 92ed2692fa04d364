// Messages by time and latency. Many are drawn as density; few, or those with a known cause, as circles in
// the colour of their first cause. Clicking one shows its life; dragging selects.

import type { Messages } from "../data/messages";
import { count, duration, bytes } from "../format";
import { type Term, passesTerms } from "../state/filter";
import type { Store } from "../state/store";
import { colourOf, ink, isDark } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow, axisLeft } from "./plot";
import { type Scale, linear, logarithmic, timeLabel, timeLabels } from "./scale";

/** Visible messages up to which each has a circle; above, they are counted by cell. */
const CIRCLES = 6_000;
/** Side of a cell of the density, pixels. */
const CELL = 3;
/** How near a click must be, pixels. */
const NEAR = 10;

export interface Balloons {
  messages: Messages;
  /** Those that pass the filters. */
  rows: Uint32Array;
  store: Store;
  whole: [number, number];
  height: number;
  /** Names a message's process. */
  who: (row: number) => string;
}

/** Makes the plot of latencies over time, a circle for each message. */
export function balloonPlot(options: Balloons): Plot {
  const { messages, rows, store } = options;
  const [least, most] = extent(messages.latency, rows);
  const area = (width: number): Area => ({ left: 62, top: 10, width: width - 78, height: options.height - 40 });
  const x = (width: number): Scale => {
    const [from, to] = store.state.view ?? options.whole;
    const within = area(width);
    return linear(from, to, within.left, within.left + within.width);
  };
  const y = (): Scale => logarithmic(least, most, options.height - 30, 10);
  const plot = new Plot("messages by time and latency", options.height, (context, width) => {
    const within = area(width);
    axisBelow(context, within, x(width), timeLabels);
    axisLeft(context, within, y(), (ticks) => ticks.map(timeLabel));
    context.save();
    context.beginPath();
    context.rect(within.left, within.top - 6, within.width, within.height + 12);
    context.clip();
    draw(context, options, within, x(width), y());
    context.restore();
  });
  const width = () => plot.element.clientWidth;
  const nearest = (px: number, py: number) => near(options, x(width()), y(), px, py);
  gestures(plot, {
    area: () => area(width()),
    x: () => x(width()),
    y,
    whole: options.whole,
    zoom: (view) => store.adjust({ view }),
    brush: ([from, to], latency) => {
      const terms: Term[] = [{ by: "time", from, to }];
      if (latency) terms.push({ by: "latency", from: latency[0], to: latency[1] });
      store.select(terms);
    },
    click: (px, py) => {
      const row = nearest(px, py);
      if (row === null) store.select([]);
      else store.go({ message: messages.id(row) });
    },
    hover: (px, py) => {
      const row = nearest(px, py);
      return row === null ? null : inWords(options, row);
    },
  });
  return plot;
}

function extent(latency: Float64Array, rows: Uint32Array): [number, number] {
  let [least, most] = [Infinity, 0];
  for (const row of rows) {
    const ns = latency[row] ?? NaN;
    if (ns > 0 && ns < least) least = ns;
    if (ns > most) most = ns;
  }
  return most > 0 ? [least * 0.8, most * 1.25] : [1, 10];
}

/** Returns the lines of the tooltip of a message. */
function inWords(options: Balloons, row: number): string[] {
  const { messages } = options;
  const why = messages.why(row);
  const first = why?.explained.causes[0];
  const cause = first && why ? why.group.causes[first.cause] : undefined;
  const reason =
    cause && first
      ? `${cause.what}: ${duration(first.ns)} of it`
      : why
        ? "no cause found"
        : "not explained: no CPU activity was recorded, or it is not slow";
  return [
    `${duration(messages.latency[row] ?? NaN)} ${messages.sent[row] ? "sent" : "received"}`,
    `${messages.id(row)}, ${bytes(messages.bytes[row] ?? NaN)}, ${options.who(row)}`,
    reason,
  ];
}

/** Draws axes and messages. */
function draw(context: CanvasRenderingContext2D, options: Balloons, area: Area, x: Scale, y: Scale): void {
  const { messages, rows, store } = options;
  const { begin, latency, cause } = messages;
  const { selection } = store.state;
  const seen: number[] = [];
  const plain: number[] = [];
  for (const row of rows) {
    const at = begin[row] ?? NaN;
    if (at >= x.from && at <= x.to && (latency[row] ?? 0) > 0) {
      (cause[row] ? seen : plain).push(row);
    }
  }
  if (plain.length > CIRCLES) {
    drawDensity(context, plain, messages, area, x, y);
  } else {
    drawCircles(context, plain, messages, x, y, selection, 2.6);
  }
  drawCircles(context, seen, messages, x, y, selection, 5);
  if (selection.length > 0 && plain.length > CIRCLES) {
    outline(context, selection, area, x, y);
  }
  const picked = store.state.message === null ? null : messages.rowOf(store.state.message);
  if (picked !== null) {
    context.strokeStyle = ink("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x.at(begin[picked] ?? 0), y.at(latency[picked] ?? 1), 8, 0, 7);
    context.stroke();
    context.lineWidth = 1;
  }
}

/** Draws a circle for each message. */
function drawCircles(
  context: CanvasRenderingContext2D,
  rows: number[],
  messages: Messages,
  x: Scale,
  y: Scale,
  selection: Term[],
  radius: number,
): void {
  const { begin, latency, cause, causes } = messages;
  // One path a colour is far quicker than one a circle.
  const paths = new Map<string, Path2D>();
  const faint = new Path2D();
  for (const row of rows) {
    const isOut = selection.length > 0 && passesTerms(selection, messages.facts, row) === false;
    const colour = colourOf(causes[(cause[row] ?? 0) - 1]?.rule ?? "unknown");
    const path = isOut ? faint : (paths.get(colour) ?? new Path2D());
    if (!isOut) paths.set(colour, path);
    const [px, py] = [x.at(begin[row] ?? 0), y.at(latency[row] ?? 1)];
    path.moveTo(px + radius, py);
    path.arc(px, py, radius, 0, 7);
  }
  context.globalAlpha = 0.25;
  context.fillStyle = ink("soft");
  context.fill(faint);
  for (const [colour, path] of paths) {
    context.fillStyle = colour;
    context.globalAlpha = 0.75;
    context.fill(path);
  }
  context.globalAlpha = 1;
}

/** Draws the number of messages in each cell, where circles would cover each other. */
function drawDensity(
  context: CanvasRenderingContext2D,
  rows: number[],
  messages: Messages,
  area: Area,
  x: Scale,
  y: Scale,
): void {
  const columns = Math.ceil(area.width / CELL) + 1;
  const lines = Math.ceil(area.height / CELL) + 1;
  const cells = new Uint32Array(columns * lines);
  let most = 1;
  for (const row of rows) {
    const column = Math.floor((x.at(messages.begin[row] ?? 0) - area.left) / CELL);
    const line = Math.floor((y.at(messages.latency[row] ?? 1) - area.top) / CELL);
    const at = Math.max(0, Math.min(lines - 1, line)) * columns + Math.max(0, Math.min(columns - 1, column));
    const number = (cells[at] ?? 0) + 1;
    cells[at] = number;
    if (number > most) most = number;
  }
  context.fillStyle = isDark() ? "#9fc6ea" : "#1f4e79";
  const scale = 1 / Math.log(most + 1);
  cells.forEach((number, at) => {
    if (number > 0) {
      context.globalAlpha = 0.18 + 0.82 * Math.log(number + 1) * scale;
      context.fillRect(area.left + (at % columns) * CELL, area.top + Math.floor(at / columns) * CELL, CELL, CELL);
    }
  });
  context.globalAlpha = 1;
}

function outline(context: CanvasRenderingContext2D, selection: Term[], area: Area, x: Scale, y: Scale): void {
  const time = selection.find((term) => term.by === "time");
  const latency = selection.find((term) => term.by === "latency");
  const left = time ? x.at(time.from ?? 0) : area.left;
  const right = time ? x.at(time.to ?? 0) : area.left + area.width;
  const top = latency ? y.at(latency.to ?? 1) : area.top;
  const bottom = latency ? y.at(latency.from ?? 1) : area.top + area.height;
  context.strokeStyle = ink("accent");
  context.strokeRect(left, top, right - left, bottom - top);
}

/** The message nearest to a place; `null`: none is near. */
function near(options: Balloons, x: Scale, y: Scale, px: number, py: number): number | null {
  const { begin, latency, cause } = options.messages;
  const reach = Math.abs(x.value(px + NEAR) - x.value(px));
  const at = x.value(px);
  let [best, least] = [-1, NEAR * NEAR];
  for (const row of options.rows) {
    const when = begin[row] ?? NaN;
    if (Math.abs(when - at) <= reach) {
      // Of two as near, the explained one.
      const away = (x.at(when) - px) ** 2 + (y.at(latency[row] ?? 1) - py) ** 2 - (cause[row] ? 9 : 0);
      if (away < least) [best, least] = [row, away];
    }
  }
  return best < 0 ? null : best;
}

/** Returns the plot as rows of a table, for users who cannot see it. */
export function balloonRows(options: Balloons): (string | number)[][] {
  const slowest = Array.from(options.rows).filter((row) => (options.messages.latency[row] ?? 0) > 0);
  slowest.sort((a, b) => (options.messages.latency[b] ?? 0) - (options.messages.latency[a] ?? 0));
  return slowest.slice(0, 200).map((row) => {
    const [latency, what, cause] = inWords(options, row);
    return [duration(options.messages.begin[row] ?? NaN), latency ?? "", what ?? "", cause ?? ""];
  });
}

export function balloonNote(options: Balloons): string {
  const known = options.rows.reduce((sum, row) => sum + (options.messages.cause[row] ? 1 : 0), 0);
  return `${count(options.rows.length)} messages, the cause of ${count(known)} is known`;
}
