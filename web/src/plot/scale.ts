// Numbers → pixels, and where an axis has its ticks.

export interface Scale {
  from: number;
  to: number;
  /** Value → pixel. */
  at: (value: number) => number;
  /** Pixel → value. */
  value: (pixel: number) => number;
  ticks: (about: number) => number[];
}

export function linear(from: number, to: number, first: number, last: number): Scale {
  const span = to - from || 1;
  const slope = (last - first) / span;
  return {
    from,
    to,
    at: (value) => first + (value - from) * slope,
    value: (pixel) => from + (pixel - first) / slope,
    ticks: (about) => linearTicks(from, to, about),
  };
}

/** Of values above zero. */
export function logarithmic(from: number, to: number, first: number, last: number): Scale {
  const low = Math.log(from);
  const span = Math.log(to) - low || 1;
  const slope = (last - first) / span;
  return {
    from,
    to,
    at: (value) => first + (Math.log(value) - low) * slope,
    value: (pixel) => Math.exp(low + (pixel - first) / slope),
    ticks: () => logTicks(from, to),
  };
}

/** Multiples of 1, 2 or 5 times a power of ten. */
export function linearTicks(from: number, to: number, about: number): number[] {
  const rough = (to - from) / Math.max(1, about);
  if (!(rough > 0)) {
    return [from];
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) ?? rough;
  const ticks: number[] = [];
  for (let index = Math.ceil(from / step - 1e-9); index * step <= to + step * 1e-9; index++) {
    ticks.push(index * step);
  }
  return ticks;
}

function logTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  const decades = Math.log10(to / from);
  const within = decades < 2.2 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(from)); 10 ** power <= to; power++) {
    for (const times of within) {
      const tick = times * 10 ** power;
      if (tick >= from * 0.999 && tick <= to * 1.001) {
        ticks.push(tick);
      }
    }
  }
  return ticks;
}

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/** Labels of ticks of time, all of one unit and with the same digits. */
export function timeLabels(ticks: number[]): string[] {
  const step = ticks.length > 1 ? Math.abs((ticks[1] ?? 0) - (ticks[0] ?? 0)) : Math.abs(ticks[0] ?? 1);
  const most = Math.max(...ticks.map(Math.abs), 1);
  const [size, unit] = UNITS.find(([size]) => most >= size) ?? [1, "ns"];
  const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9)));
  return ticks.map((tick) => `${(tick / size).toFixed(digits)} ${unit}`);
}

/** Label of a tick of a logarithmic axis of time. */
export function timeLabel(ns: number): string {
  const [size, unit] = UNITS.find(([size]) => ns >= size * 0.999) ?? [1, "ns"];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}

/** From the first begin to the last end, with some room; NaN is left out. */
export function extent(begins: Float64Array, ends: Float64Array, otherwise: number): [number, number] {
  let [from, to] = [Infinity, -Infinity];
  for (const begin of begins) {
    if (begin < from) from = begin;
  }
  for (const end of ends) {
    if (end > to) to = end;
  }
  const margin = Math.max(1000, (to - from) * 0.02);
  return from <= to ? [from - margin, to + margin] : [0, otherwise];
}
