// Requests by time and duration: the darker a cell, the more of them. One hue from light to dark, which any kind of colour
// vision distinguishes.

import { type HeatCell, rowNs } from "../data/requests";
import { count, duration } from "../format";
import type { Store } from "../state/store";
import { ink, isDark } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow, axisLeft } from "./plot";
import { type Scale, extent, linear, logarithmic, timeLabel, timeLabels } from "./scale";

export interface Heat {
  cells: HeatCell[];
  binNs: number;
  store: Store;
  height: number;
  pick: (from: [number, number], to: [number, number]) => void;
}

/** From few to many; the ends of a scale of blues (ColorBrewer). */
const LIGHT = ["#c6dbef", "#6baed6", "#2171b5", "#08306b"];
const DARK = ["#1d3a57", "#2f6ea3", "#6baed6", "#deebf7"];

/** Returns the colour of a count; colours go by its logarithm. */
export function heatColour(count: number, most: number): string {
  const ramp = isDark() ? DARK : LIGHT;
  const share = most > 1 ? Math.log(count) / Math.log(most) : 1;
  return mixed(ramp, Math.min(1, Math.max(0, share)));
}

function mixed(ramp: string[], share: number): string {
  const at = share * (ramp.length - 1);
  const index = Math.min(ramp.length - 2, Math.floor(at));
  const parts = [1, 3, 5].map((from) => {
    const [low, high] = [ramp[index] ?? "", ramp[index + 1] ?? ""].map((hex) => parseInt(hex.slice(from, from + 2), 16));
    return Math.round((low ?? 0) + ((high ?? 0) - (low ?? 0)) * (at - index));
  });
  return `rgb(${parts.join(" ")})`;
}

/** Makes the plot of durations over time, with a cell for many requests. */
export function heatPlot(options: Heat): Plot {
  const { cells, binNs, store } = options;
  const rows = cells.map((cell) => cell.row);
  const least = rowNs(Math.min(...rows) - 1);
  const most = rowNs(Math.max(...rows) + 2);
  const begins = Float64Array.from(cells, (cell) => cell.bin * binNs);
  const whole = extent(begins, begins.map((begin) => begin + binNs), binNs);
  const area = (width: number): Area => ({ left: 62, top: 8, width: width - 78, height: options.height - 40 });
  const x = (width: number): Scale => {
    const [from, to] = store.state.view ?? whole;
    const within = area(width);
    return linear(from, to, within.left, within.left + within.width);
  };
  const y = logarithmic(least, most, options.height - 32, 8);
  const plot = new Plot("requests by time and duration", options.height, (context, width) => {
    draw(context, options, area(width), x(width), y);
  });
  const width = () => plot.element.clientWidth;
  const cellAt = (px: number, py: number): HeatCell | undefined => {
    const [at, ns] = [x(width()).value(px), y.value(py)];
    const isIn = (cell: HeatCell) => rowNs(cell.row) <= ns && ns < rowNs(cell.row + 1);
    return cells.find((cell) => cell.bin * binNs <= at && at < (cell.bin + 1) * binNs && isIn(cell));
  };
  gestures(plot, {
    area: () => area(width()),
    x: () => x(width()),
    y: () => y,
    whole,
    zoom: (view) => store.adjust({ view }),
    brush: ([from, to], durations) =>
      store.select([
        { by: "time", from, to },
        ...(durations ? [{ by: "duration" as const, from: durations[0], to: durations[1] }] : []),
      ]),
    click: (px, py) => {
      const cell = cellAt(px, py);
      if (cell) options.pick(...rangesOf(cell, binNs));
      else store.select([]);
    },
    hover: (px, py) => {
      const cell = cellAt(px, py);
      if (!cell) return null;
      const [times, durations] = rangesOf(cell, binNs);
      return [
        `${count(cell.count)} request${cell.count === 1 ? "" : "s"}`,
        `begun ${duration(times[0])} to ${duration(times[1])}`,
        `took ${duration(durations[0])} to ${duration(durations[1])}`,
      ];
    },
  });
  return plot;
}

function rangesOf(cell: HeatCell, binNs: number): [[number, number], [number, number]] {
  return [
    [cell.bin * binNs, (cell.bin + 1) * binNs],
    [rowNs(cell.row), rowNs(cell.row + 1)],
  ];
}

/** Draws axes and cells. */
function draw(context: CanvasRenderingContext2D, options: Heat, area: Area, x: Scale, y: Scale): void {
  const { cells, binNs } = options;
  axisBelow(context, area, x, timeLabels);
  axisLeft(context, area, y, (ticks) => ticks.map(timeLabel));
  const top = Math.max(1, ...cells.map((cell) => cell.count));
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  for (const cell of cells) {
    const [left, right] = [x.at(cell.bin * binNs), x.at((cell.bin + 1) * binNs)];
    if (right < area.left || left > area.left + area.width) continue;
    const [low, high] = [y.at(rowNs(cell.row)), y.at(rowNs(cell.row + 1))];
    context.fillStyle = heatColour(cell.count, top);
    context.fillRect(left, high, Math.max(2, right - left), Math.max(2, low - high));
  }
  context.restore();
  drawSelection(context, options, area, x, y);
}

/** Draws the selected part. */
function drawSelection(context: CanvasRenderingContext2D, options: Heat, area: Area, x: Scale, y: Scale): void {
  const { selection } = options.store.state;
  const time = selection.find((term) => term.by === "time");
  const durations = selection.find((term) => term.by === "duration");
  if (!time && !durations) {
    return;
  }
  const [left, right] = time
    ? [x.at(time.from ?? 0), x.at(time.to ?? 0)]
    : [area.left, area.left + area.width];
  const [low, high] = durations
    ? [y.at(Math.max(y.from, durations.from ?? 0)), y.at(Math.min(y.to, durations.to ?? 0))]
    : [area.top + area.height, area.top];
  context.strokeStyle = ink("accent");
  context.lineWidth = 1.5;
  context.strokeRect(left, high, right - left, low - high);
  context.lineWidth = 1;
}
