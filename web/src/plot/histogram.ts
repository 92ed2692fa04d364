// Waits by duration, a quarter of a doubling a bar; where there are two populations, fast and slow in colours of their
// own.

import { count, duration } from "../format";
import { colourAt, ink } from "../theme/palette";
import { type Area, Plot, axisBelow, axisLeft } from "./plot";
import { linear, logarithmic, timeLabel } from "./scale";
import { hideTip, tipAt } from "./tip";

export interface Cell {
  from_ns: number;
  to_ns: number;
  count: number;
}

/** `boundaryNs`: from there on waits are slow; `null`: one population. */
export function histogram(cells: Cell[], boundaryNs: number | null, height: number): Plot {
  const least = Math.max(1, cells[0]?.from_ns ?? 1);
  const most = Math.max(least * 2, cells[cells.length - 1]?.to_ns ?? 2);
  const top = Math.max(...cells.map((cell) => cell.count), 1);
  const area = (width: number): Area => ({ left: 58, top: 10, width: width - 74, height: height - 42 });
  const x = (width: number) => {
    const within = area(width);
    return logarithmic(least, most, within.left, within.left + within.width);
  };
  const y = linear(0, top, height - 32, 10);
  const plot = new Plot("waits by duration", height, (context, width) => {
    const [within, scale] = [area(width), x(width)];
    axisBelow(context, within, scale, (ticks) => ticks.map(timeLabel));
    axisLeft(context, within, y, (ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : "")));
    for (const cell of cells) {
      const [left, right] = [scale.at(Math.max(least, cell.from_ns)), scale.at(cell.to_ns)];
      context.fillStyle = boundaryNs !== null && cell.from_ns >= boundaryNs ? colourAt(1) : colourAt(0);
      const bar = Math.max(1, y.at(0) - y.at(cell.count));
      context.fillRect(left, y.at(0) - bar, Math.max(1, right - left - 1), bar);
    }
    if (boundaryNs !== null) {
      const at = scale.at(boundaryNs);
      context.strokeStyle = ink("ink");
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(at, within.top);
      context.lineTo(at, within.top + within.height);
      context.stroke();
      context.setLineDash([]);
    }
  });
  plot.canvas.addEventListener("mousemove", (event) => {
    const at = x(plot.element.clientWidth).value(event.offsetX);
    const cell = cells.find((cell) => cell.from_ns <= at && at < cell.to_ns);
    if (cell) tipAt(event, [`${count(cell.count)} waits`, `${duration(cell.from_ns)} to ${duration(cell.to_ns)}`]);
    else hideTip();
  });
  plot.canvas.addEventListener("mouseleave", hideTip);
  return plot;
}

/** Counts durations in cells, four to each doubling, as the diagnosis does. */
export function countDurations(durations: Iterable<number>): Cell[] {
  const counts = new Map<number, number>();
  for (const ns of durations) {
    const cell = Math.floor(Math.log2(Math.max(1, ns)) * 4);
    counts.set(cell, (counts.get(cell) ?? 0) + 1);
  }
  const cells = [...counts].map(([cell, count]) => ({ from_ns: 2 ** (cell / 4), to_ns: 2 ** ((cell + 1) / 4), count }));
  return cells.sort((a, b) => a.from_ns - b.from_ns);
}
