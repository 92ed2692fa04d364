// Requests of a recording: those that the page holds one by one, and how many there were by time and duration.

import type { HeldRequest, Parts, RequestPage, RequestReport, RequestService } from "./contract";
import type { Side } from "./side";
import { type Facts, type Filter, rowsPassing } from "../state/filter";

/** Parts of a sentence or a cell: the largest, of at least this share. As `whylat report --requests` has them. */
const PARTS = 3;
const PART_LEAST = 0.01;

/** The slowest of so many are judged by themselves. */
const SLOWEST_OF = 100;

/** Columns of the map at most, and the narrowest, as `crates/diagnose/src/requests/page.rs` makes them. */
const BINS = 240;
const LEAST_BIN_NS = 1e6;

/** How many requests there were in an interval of time and of durations. */
export interface HeatCell {
  /** Column and row: see `RequestPage.heat`. */
  bin: number;
  row: number;
  count: number;
}

export interface Requests {
  report: RequestReport;
  page: RequestPage;
  held: HeldRequest[];
  /** Names of the services, in the order of the report. */
  titles: string[];
  /** How many there were. */
  all: number;
  /** Whether the page holds all of them. */
  isWhole: boolean;
  facts: Facts;
}

/** Returns the requests of a side; `null`: it has none. */
export function requestsOf(side: Side): Requests | null {
  const page = side.requests;
  const report = side.requestsReport;
  if (!page || !report || side.requestsAnswer === null) {
    return null;
  }
  const { held } = page;
  const titles = report.services.map(serviceTitle);
  const all = report.services.reduce((sum, service) => sum + service.requests, 0);
  const first = held.map((request) => firstPart(request.parts));
  const at = (row: number) => held[row] as HeldRequest;
  const facts: Facts = {
    begin: (row) => at(row).begin_ns,
    end: (row) => at(row).begin_ns + at(row).duration_ns,
    duration: (row) => at(row).duration_ns,
    has: {
      conn: (row, value) => at(row).id.split(":")[0] === value,
      pid: (row, value) => String(at(row).pid) === value,
      tid: (row, value) => String(at(row).tid) === value,
      service: (row, value) => titles[at(row).service] === value,
      part: (row, value) => first[row] === value,
    },
  };
  return { report, page, held, titles, all, isWhole: held.length === all, facts };
}

/** The name of a service, as the command line writes it. */
export function serviceTitle(service: Pick<RequestService, "name" | "role" | "address">): string {
  return `${service.name} ${service.role === "client" ? "→" : "at"} ${service.address}`;
}

/** The name of a part in text. */
export function partText(page: RequestPage | null, name: string): string {
  return page?.part_names.find(([known]) => known === name)?.[1] ?? name;
}

/** The part with the most time. */
export function firstPart(parts: Parts): string {
  return largest(parts)[0]?.[0] ?? "unknown";
}

/** The parts with the most time first. */
export function largest(parts: Parts): [string, number][] {
  return Object.entries(parts).sort((a, b) => b[1] - a[1]);
}

/** The largest parts in words, as the command line writes them. */
export function shareWords(page: RequestPage, shares: Parts): string {
  const shown = largest(shares)
    .slice(0, PARTS)
    .filter(([, share]) => share >= PART_LEAST);
  const words = shown.map(([name, share]) => `${partText(page, name)} ${(share * 100).toFixed(0)} %`);
  return words.join(", ") || "none";
}

/** Whether filters touch requests at all. */
export function isTouched(filters: Filter[]): boolean {
  const known = ["time", "duration", "conn", "pid", "tid", "service", "part"];
  return filters.some((filter) => filter.terms.some((term) => known.includes(term.by)));
}

/** The services of some of the requests that the page holds, counted here. */
export function servicesOf(requests: Requests, rows: Uint32Array): RequestService[] {
  const groups = requests.report.services.map((): HeldRequest[] => []);
  for (const row of rows) {
    const request = requests.held[row] as HeldRequest;
    groups[request.service]?.push(request);
  }
  return requests.report.services.flatMap((service, index) => {
    const group = groups[index] ?? [];
    return group.length > 0 ? [counted(service, group)] : [];
  });
}

function counted(service: RequestService, group: HeldRequest[]): RequestService {
  const sorted = [...group].sort((a, b) => a.duration_ns - b.duration_ns);
  const rank = (share: number) => sorted[Math.max(1, Math.ceil(share * sorted.length)) - 1]?.duration_ns ?? NaN;
  const slowest = sorted.slice(sorted.length - Math.ceil(sorted.length / SLOWEST_OF));
  const all = sharesOf(group);
  return {
    ...service,
    requests: group.length,
    duration_ns: { p50: rank(0.5), p90: rank(0.9), p99: rank(0.99), max: rank(1) },
    parts: { all, slowest: sharesOf(slowest) },
    unknown: all["unknown"] ?? 0,
  };
}

function sharesOf(group: HeldRequest[]): Parts {
  const sums: Parts = {};
  let total = 0;
  for (const request of group) {
    for (const [part, ns] of Object.entries(request.parts)) {
      sums[part] = (sums[part] ?? 0) + ns;
      total += ns;
    }
  }
  return Object.fromEntries(Object.entries(sums).map(([part, ns]) => [part, total > 0 ? ns / total : 0]));
}

/** The cells of the map under filters, and whether they count all requests or those that the page holds. */
export function heatOf(
  requests: Requests,
  filters: Filter[],
): { cells: HeatCell[]; binNs: number; isExact: boolean } {
  const cellular = ["service", "part"];
  const touching = filters.filter((filter) => isTouched([filter]));
  const isExact = touching.every((filter) => filter.terms.every((term) => cellular.includes(term.by)));
  const sums = new Map<number, HeatCell>();
  const add = (bin: number, row: number, count: number) => {
    const key = bin * 1024 + row;
    const cell = sums.get(key);
    if (cell) cell.count += count;
    else sums.set(key, { bin, row, count });
  };
  const { heat, part_names: names } = requests.page;
  let binNs = heat.bin_ns;
  if (isExact) {
    const facts: Facts = {
      has: {
        service: (at, value) => requests.titles[heat.cells[at]?.[0] ?? -1] === value,
        part: (at, value) => names[heat.cells[at]?.[1] ?? -1]?.[0] === value,
      },
    };
    for (const at of rowsPassing(touching, facts, heat.cells.length)) {
      const [, , bin, row, count] = heat.cells[at] ?? [0, 0, 0, 0, 0];
      add(bin, row, count);
    }
  } else {
    const rows = rowsPassing(filters, requests.facts, requests.held.length);
    const shown = [...rows].map((row) => requests.held[row] as HeldRequest);
    const begins = shown.map((request) => request.begin_ns);
    const span = Math.max(...begins) - Math.min(...begins);
    while (binNs > LEAST_BIN_NS && span / binNs < BINS / 2) binNs /= 2;
    for (const request of shown) {
      add(Math.floor(request.begin_ns / binNs), heatRow(request.duration_ns), 1);
    }
  }
  return { cells: [...sums.values()], binNs, isExact: isExact || requests.isWhole };
}

/** The row of a duration in the map. */
export function heatRow(ns: number): number {
  return Math.floor(Math.log2(Math.max(1, ns)) * 4);
}

/** The first duration of a row. */
export function rowNs(row: number): number {
  return 2 ** (row / 4);
}
