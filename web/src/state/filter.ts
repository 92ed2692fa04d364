// The view's filters that are in force, and a selection that may become one. Both are lists of terms that hold
// together, and both are written into the URL, so that a link shows the same.

export type By =
  | "time"
  | "latency"
  | "duration"
  | "conn"
  | "pid"
  | "tid"
  | "cause"
  | "object"
  | "service"
  | "part";

/** One condition. Times, latencies and durations of requests are ranges in ns, from the recording's start; the others are names. */
export interface Term {
  by: By;
  from?: number;
  to?: number;
  value?: string;
}

/** Terms that hold together; `out`: what they hold for is left out. */
export interface Filter {
  out: boolean;
  terms: Term[];
}

const RANGES: By[] = ["time", "latency", "duration"];
const NAMES: By[] = ["conn", "pid", "tid", "cause", "object", "service", "part"];

export function writeTerms(terms: Term[]): string {
  const one = (term: Term): string =>
    RANGES.includes(term.by)
      ? `${term.by}:${Math.round(term.from ?? 0)}:${Math.round(term.to ?? 0)}`
      : `${term.by}:${encodeURIComponent(term.value ?? "")}`;
  return terms.map(one).join(",");
}

/** Parses the filter terms of a URL: `by:value` or `by:from:to`, separated by commas. Leaves out what is no term. */
export function readTerms(text: string): Term[] {
  const terms: Term[] = [];
  for (const part of text.split(",")) {
    const [by, first, second] = part.split(":") as [By, string | undefined, string | undefined];
    if (RANGES.includes(by)) {
      const [from, to] = [Number(first), Number(second)];
      if (Number.isFinite(from) && Number.isFinite(to) && from <= to) {
        terms.push({ by, from, to });
      }
    } else if (NAMES.includes(by) && first) {
      terms.push({ by, value: decoded(first) });
    }
  }
  return terms;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Holds the facts of a row that filters use: begin, end, and values by name. */
export interface Facts {
  begin?: (row: number) => number;
  end?: (row: number) => number;
  latency?: (row: number) => number;
  duration?: (row: number) => number;
  /** Whether the row has this value; absent: the rows know no such thing, and the term does not touch them. */
  has: Partial<Record<By, (row: number, value: string) => boolean>>;
}

function holds(term: Term, facts: Facts, row: number): boolean | null {
  const [from, to] = [term.from ?? -Infinity, term.to ?? Infinity];
  if (term.by === "time") {
    return facts.begin && facts.end ? facts.begin(row) <= to && facts.end(row) >= from : null;
  }
  if (term.by === "latency" || term.by === "duration") {
    const value = facts[term.by]?.(row);
    return value === undefined ? null : value >= from && value <= to;
  }
  const has = facts.has[term.by];
  return has ? has(row, term.value ?? "") : null;
}

/** Whether a row passes terms: all that it can be asked about. `null`: it can be asked about none. */
export function passesTerms(terms: Term[], facts: Facts, row: number): boolean | null {
  let asked = false;
  for (const term of terms) {
    const held = holds(term, facts, row);
    if (held === false) {
      return false;
    }
    asked ||= held === true;
  }
  return asked ? true : null;
}

/** Whether a row is shown under these filters. */
export function passes(filters: Filter[], facts: Facts, row: number): boolean {
  for (const filter of filters) {
    const held = passesTerms(filter.terms, facts, row);
    if (held !== null && held === filter.out) {
      return false;
    }
  }
  return true;
}

/** The rows shown under these filters. */
export function rowsPassing(filters: Filter[], facts: Facts, rows: number): Uint32Array {
  const out = new Uint32Array(rows);
  let length = 0;
  for (let row = 0; row < rows; row++) {
    if (filters.length === 0 || passes(filters, facts, row)) {
      out[length++] = row;
    }
  }
  return out.subarray(0, length);
}
