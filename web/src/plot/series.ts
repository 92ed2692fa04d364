// Lines over time, by uPlot: readings of a connection, counters of a program.

import uPlot from "uplot";
import { el } from "../dom";
import { duration } from "../format";
import { ink } from "../theme/palette";
import { asTable } from "./plot";
import { linearTicks, timeLabels } from "./scale";

export interface Line {
  label: string;
  colour: string;
  /** One a moment; NaN: not measured. */
  values: ArrayLike<number>;
  dash?: number[];
  /** Whether it keeps its value until the next moment. */
  steps?: boolean;
}

export interface Series {
  label: string;
  /** Moments, ns from the start, in order. */
  times: ArrayLike<number>;
  lines: Line[];
  range: () => [number, number];
  /** Calls back when that has changed. */
  live?: (changed: () => void) => void;
  /** Writes a value with its unit. */
  write: (value: number) => string;
  height?: number;
  /** Callback for a selected range. */
  brushed?: (from: number, to: number) => void;
}

/** Returns a plot of values over time. */
export function series(options: Series): HTMLElement {
  const place = el("div.plot", { role: "group", "aria-label": options.label });
  const table = asTable(["time", ...options.lines.map((line) => line.label)], () =>
    Array.from(options.times, (time, row) => [
      timeLabels([time])[0] ?? "",
      ...options.lines.map((line) => written(line.values[row], options.write)),
    ]),
  );
  let plot: uPlot | null = null;
  const make = () => {
    plot?.destroy();
    plot = new uPlot(settings(options, place.clientWidth), data(options), place);
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", options.label);
  };
  const sizes = new ResizeObserver(() => {
    if (!place.isConnected) {
      sizes.disconnect();
      plot?.destroy();
    } else if (!plot) {
      make();
    } else {
      plot.setSize({ width: place.clientWidth, height: options.height ?? 150 });
    }
  });
  sizes.observe(place);
  options.live?.(() => {
    const [min, max] = options.range();
    plot?.setScale("x", { min, max });
  });
  return el("div", {}, place, table);
}

function written(value: number | null | undefined, write: (value: number) => string): string {
  return value === null || value === undefined || Number.isNaN(value) ? "unknown" : write(value);
}

/** Room for the longest label of an axis, in a font of 12 px; as much for short ones, so that plots are in line. */
function axisWidth(labels: string[]): number {
  const longest = Math.max(0, ...labels.map((label) => label.length));
  return Math.max(96, longest * 7 + 16);
}

function data(options: Series): uPlot.AlignedData {
  // Gaps are null to uPlot.
  const lines = options.lines.map((line) => Array.from(line.values, (value) => (Number.isNaN(value) ? null : value)));
  return [Array.from(options.times), ...lines];
}

/** Returns the settings of the plot. */
function settings(options: Series, width: number): uPlot.Options {
  const axis = {
    stroke: ink("soft"),
    grid: { stroke: ink("line"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  const { write, brushed } = options;
  return {
    width,
    height: options.height ?? 150,
    scales: {
      x: { time: false, range: options.range },
      y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        splits: (_, __, from, to) => linearTicks(from, to, Math.max(2, width / 120)),
        values: (_, ticks) => timeLabels(ticks),
      },
      {
        ...axis,
        size: (_, labels) => axisWidth(labels ?? []),
        splits: (_, __, from, to) => linearTicks(from, to, 3),
        values: (_, ticks) => ticks.map(write),
      },
    ],
    series: [
      {
        label: "time",
        value: (_, __, ___, row) => {
          const time = options.times[row ?? options.times.length - 1];
          return time === undefined ? "none" : duration(time);
        },
      },
      ...options.lines.map((line) => ({
        label: line.label,
        stroke: line.colour,
        width: 1.6,
        points: { show: options.times.length < 60, size: 4 },
        ...(line.dash ? { dash: line.dash } : {}),
        ...(line.steps && uPlot.paths.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
        // Without a pointer it is the last one.
        value: (_: uPlot, __: number | null, ___: number, row: number | null) =>
          written(line.values[row ?? line.values.length - 1], write),
      })),
    ],
    cursor: { drag: { x: brushed !== undefined, y: false, setScale: false }, points: { size: 6 } },
    select: { show: brushed !== undefined, left: 0, top: 0, width: 0, height: 0 },
    legend: { live: true },
    hooks: {
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (brushed && width > 2) {
            brushed(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          }
        },
      ],
    },
  };
}
