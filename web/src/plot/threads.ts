// Waits over time, a lane a thread, coloured by what was waited for; tasks that the program reported below the
// lane of its thread.

import type { Task } from "../data/counters";
import type { Waits } from "../data/waits";
import { duration } from "../format";
import type { Store } from "../state/store";
import { ink } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow } from "./plot";
import { type Scale, linear, timeLabels } from "./scale";

export interface Lane {
  title: string;
  tid: string;
  /** Rows of waits in order of their start. */
  rows: Uint32Array;
  tasks: Task[];
}

export interface Threads {
  waits: Waits;
  lanes: Lane[];
  store: Store;
  whole: [number, number];
  /** Colour of an object by its number. */
  colour: (object: number) => string;
  /** Lines for a wait that the pointer is on. */
  describe: (row: number) => string[];
  pick: (row: number) => void;
}

const LANE = 26;
const BAR = 16;
const LEFT = 190;

/** Makes the plot of waits, a lane for each thread. */
export function threadsPlot(options: Threads): Plot {
  const { waits, lanes, store } = options;
  const height = lanes.length * LANE + 34;
  const area = (width: number): Area => ({ left: LEFT, top: 4, width: width - LEFT - 14, height: lanes.length * LANE });
  const x = (width: number): Scale => {
    const [from, to] = store.state.view ?? options.whole;
    const within = area(width);
    return linear(from, to, within.left, within.left + within.width);
  };
  const plot = new Plot("waits of each thread over time", height, (context, width) => {
    const [within, scale] = [area(width), x(width)];
    axisBelow(context, within, scale, timeLabels);
    lanes.forEach((lane, index) => drawLane(context, options, lane, within.top + index * LANE, within, scale));
    drawSelection(context, options, within, scale);
  });
  const width = () => plot.element.clientWidth;
  const rowAt = (px: number, py: number): number | null => {
    const lane = lanes[Math.floor((py - 4) / LANE)];
    const scale = x(width());
    const slack = Math.abs(scale.value(px + 2) - scale.value(px));
    return lane && px >= LEFT ? waitAt(waits, lane.rows, scale.value(px), slack) : null;
  };
  gestures(plot, {
    area: () => area(width()),
    x: () => x(width()),
    whole: options.whole,
    zoom: (view) => store.adjust({ view }),
    brush: ([from, to]) => store.select([{ by: "time", from, to }]),
    click: (px, py) => {
      const row = rowAt(px, py);
      if (row !== null) options.pick(row);
      else store.select([]);
    },
    hover: (px, py) => {
      const row = rowAt(px, py);
      if (row !== null) return options.describe(row);
      return taskAt(lanes[Math.floor((py - 4) / LANE)], x(width()).value(px));
    },
  });
  return plot;
}

/** Draws the waits of one thread. */
function drawLane(
  context: CanvasRenderingContext2D,
  options: Threads,
  lane: Lane,
  top: number,
  area: Area,
  x: Scale,
): void {
  const { begin, end, object } = options.waits;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = ink("ink");
  context.fillText(lane.title, 0, top + LANE / 2, LEFT - 12);
  context.save();
  context.beginPath();
  context.rect(area.left, top, area.width, LANE);
  context.clip();
  const right = area.left + area.width;
  let drawn = -Infinity;
  for (let at = firstIn(lane.rows, end, x.from); at < lane.rows.length; at++) {
    const row = lane.rows[at] ?? 0;
    const from = x.at(begin[row] ?? 0);
    if (from > right) break;
    const to = x.at(end[row] ?? 0);
    // What ends within the pixel that was drawn last would not be seen.
    if (to > drawn + 0.4) {
      context.fillStyle = options.colour(object[row] ?? 0);
      context.fillRect(from, top + 3, Math.max(0.8, to - from - (to - from > 3 ? 0.6 : 0)), BAR);
      drawn = Math.max(to, from + 0.8);
    }
  }
  context.fillStyle = ink("ink");
  let last = -Infinity;
  for (const task of lane.tasks) {
    const [from, to] = [x.at(task.begin), x.at(task.end)];
    if (from > right) break;
    if (to >= area.left && to > last + 0.5) {
      context.fillRect(from, top + BAR + 4, Math.max(1, to - from - 0.5), 3);
      last = to;
    }
  }
  context.restore();
}

/** First of the rows that may reach a time: a thread's waits do not overlap, so that their ends are in order, too. */
function firstIn(rows: Uint32Array, end: Float64Array, from: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((end[rows[middle] ?? 0] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

function waitAt(waits: Waits, rows: Uint32Array, at: number, slack: number): number | null {
  const index = firstIn(rows, waits.end, at - slack);
  const row = rows[index];
  return row !== undefined && (waits.begin[row] ?? Infinity) <= at + slack ? row : null;
}

function taskAt(lane: Lane | undefined, at: number): string[] | null {
  const task = lane?.tasks.find((task) => task.begin <= at && at <= task.end);
  return task ? [task.name || task.kind, `${task.kind}, ${duration(task.end - task.begin)}`] : null;
}

function drawSelection(context: CanvasRenderingContext2D, options: Threads, area: Area, x: Scale): void {
  const time = options.store.state.selection.find((term) => term.by === "time");
  if (time) {
    const [left, right] = [x.at(time.from ?? 0), x.at(time.to ?? 0)];
    context.strokeStyle = ink("accent");
    context.lineWidth = 1.5;
    context.strokeRect(left, area.top, right - left, area.height);
    context.lineWidth = 1;
  }
}
