// Shares of messages by latency: how many are no slower, and, on a logarithmic axis, how many are slower.

import { duration, percent } from "../format";
import { colourAt, ink } from "../theme/palette";
import { gestures } from "./gestures";
import { type Area, Plot, axisBelow, axisLeft } from "./plot";
import { type Scale, linear, logarithmic, timeLabel } from "./scale";

export interface Curve {
  label: string;
  /** Latencies in the order of size, ns. */
  sorted: Float64Array;
}

export interface Cdf {
  curves: Curve[];
  /** Whether the slow end is shown: shares that are slower, on a logarithmic axis. */
  tail: boolean;
  height: number;
  brushed?: (from: number, to: number) => void;
}

/** Makes the plot of cumulative distributions. */
export function cdfPlot(options: Cdf): Plot {
  const filled = options.curves.filter((curve) => curve.sorted.length > 0);
  const least = Math.max(1, Math.min(...filled.map((curve) => curve.sorted[0] ?? 1)));
  const most = Math.max(least * 1.5, ...filled.map((curve) => curve.sorted[curve.sorted.length - 1] ?? 1));
  const area = (width: number): Area => ({ left: 58, top: 12, width: width - 76, height: options.height - 44 });
  const x = (width: number): Scale => {
    const within = area(width);
    return logarithmic(least, most * 1.05, within.left, within.left + within.width);
  };
  const rarest = 1 / Math.max(10, ...filled.map((curve) => curve.sorted.length));
  const y = (): Scale => {
    const [bottom, top] = [options.height - 32, 12];
    return options.tail ? logarithmic(rarest, 1, bottom, top) : linear(0, 1, bottom, top);
  };
  const label = options.tail ? "share of slower messages" : "share of messages up to this latency";
  const plot = new Plot(label, options.height, (context, width) => {
    const within = area(width);
    axisBelow(context, within, x(width), (ticks) => ticks.map(timeLabel));
    axisLeft(context, within, y(), (ticks) => ticks.map((share) => `${Number((share * 100).toPrecision(2))} %`));
    filled.forEach((curve, index) => drawCurve(context, curve, options.tail, colourAt(index), x(width), y()));
  });
  const width = () => plot.element.clientWidth;
  gestures(plot, {
    area: () => area(width()),
    x: () => x(width()),
    whole: [least, most],
    ...(options.brushed ? { brush: ([from, to]: [number, number]) => options.brushed?.(from, to) } : {}),
    hover: (px) => {
      const at = x(width()).value(px);
      return [
        duration(at),
        ...filled.map((curve) => `${curve.label}: ${percent(1 - shareUpTo(curve.sorted, at))} are slower`),
      ];
    },
  });
  return plot;
}

/** Draws one distribution. */
function drawCurve(
  context: CanvasRenderingContext2D,
  curve: Curve,
  tail: boolean,
  colour: string,
  x: Scale,
  y: Scale,
): void {
  const { sorted } = curve;
  context.strokeStyle = colour;
  context.lineWidth = 1.8;
  context.beginPath();
  // More points than pixels are not seen; of the tail each is.
  const step = Math.max(1, Math.floor(sorted.length / 4_000));
  const last = sorted.length - 1;
  for (let index = 0; index <= last; index += index > last - 2_000 ? 1 : step) {
    const share = (index + 1) / sorted.length;
    const shown = tail ? 1 - index / sorted.length : share;
    const px = x.at(Math.max(x.from, sorted[index] ?? 1));
    const py = y.at(shown);
    if (index === 0) context.moveTo(px, py);
    else context.lineTo(px, py);
  }
  context.stroke();
  context.lineWidth = 1;
  context.strokeStyle = ink("line");
}

/** Share of sorted values up to a value. */
export function shareUpTo(sorted: Float64Array, value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) <= value) low = middle + 1;
    else high = middle;
  }
  return sorted.length === 0 ? 0 : low / sorted.length;
}

/** Percentiles of sorted values, by the nearest rank. */
export function percentiles(sorted: Float64Array): [string, number][] {
  const shares: [string, number][] = [
    ["p50", 0.5],
    ["p90", 0.9],
    ["p99", 0.99],
    ["p99.9", 0.999],
    ["max", 1],
  ];
  return shares.map(([name, share]) => [name, sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN]);
}
