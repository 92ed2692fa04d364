// Counters and tasks that the program reported, by name.

import type { Facts } from "../state/filter";
import type { Side } from "./side";
import { wordAt } from "./table";

export interface Counter {
  name: string;
  unit: string | null;
  pid: string;
  /** Moments in order, ns from the start. */
  times: Float64Array;
  values: Float64Array;
}

/** Returns the counters of a recording, each with its values over time. */
export function countersOf(side: Side): Counter[] {
  const table = side.table("counters");
  const times = table.numbers("time_ns");
  const kinds = table.words("kind");
  const [domains, names, numbers, pids, units] = ["domain", "name", "counter", "pid", "unit"].map((name) =>
    table.words(name),
  ) as [never, never, never, never, never];
  const value = ["value_u64", "value_s64", "value_f64"].map((name) => table.numbers(name));
  const groups = new Map<string, { row: number; points: [number, number, string][] }>();
  for (let row = 0; row < table.rows; row++) {
    const key = [pids, domains, names, numbers].map((cells) => wordAt(cells, row)).join("\n");
    const found = value.map((cells) => cells[row] ?? NaN).find((number) => !Number.isNaN(number)) ?? NaN;
    if (Number.isNaN(found)) continue;
    const group = groups.get(key) ?? { row, points: [] };
    group.points.push([times[row] ?? 0, found, wordAt(kinds, row) ?? "set"]);
    groups.set(key, group);
  }
  return [...groups.values()].map(({ row, points }) => {
    points.sort((a, b) => a[0] - b[0]);
    let now = 0;
    const values = points.map(
      ([, value, kind]) => (now = kind === "increment" ? now + value : kind === "decrement" ? now - value : value),
    );
    const domain = wordAt(domains, row);
    const name = wordAt(names, row) ?? `counter ${wordAt(numbers, row) ?? "without a name"}`;
    return {
      name: domain ? `${domain}: ${name}` : name,
      unit: wordAt(units, row),
      pid: wordAt(pids, row) ?? "",
      times: Float64Array.from(points, ([time]) => time),
      values: Float64Array.from(values),
    };
  });
}

/** Returns the value at a moment: the last one reported; `null` before the first. */
export function valueAt(counter: Counter, atNs: number): number | null {
  let [low, high] = [0, counter.times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((counter.times[middle] ?? 0) <= atNs) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? null : (counter.values[low - 1] ?? null);
}

/** A value of a counter with four digits and its unit. */
export function writeValue(counter: Counter, value: number): string {
  const digits = Number(value.toPrecision(4)).toString();
  return counter.unit ? `${digits} ${counter.unit}` : digits;
}

/** The facts of counters by which filters select them: their process. */
export function counterFacts(counters: Counter[]): Facts {
  return { has: { pid: (row, pid) => counters[row]?.pid === pid } };
}

export interface Task {
  begin: number;
  end: number;
  kind: string;
  name: string;
  tid: string;
}

/** Returns the spans that the program reported, in order. */
export function tasksOf(side: Side): Task[] {
  const table = side.table("tasks");
  const [begins, ends] = [table.numbers("begin_ns"), table.numbers("end_ns")];
  const [kinds, names, tids] = [table.words("kind"), table.words("name"), table.words("tid")];
  const out: Task[] = [];
  for (let row = 0; row < table.rows; row++) {
    const end = ends[row] ?? NaN;
    if (!Number.isNaN(end)) {
      out.push({
        begin: begins[row] ?? 0,
        end,
        kind: wordAt(kinds, row) ?? "",
        name: wordAt(names, row) ?? "",
        tid: wordAt(tids, row) ?? "",
      });
    }
  }
  return out.sort((a, b) => a.begin - b.begin);
}
