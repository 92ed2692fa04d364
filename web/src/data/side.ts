// One recording in the page: what was concluded of it, and its tables.

import type { Report, RequestPage, RequestReport, TailReport, WaitReport } from "./contract";
import type { StepHead } from "./steps";
import { Table, type TableHead, type Words } from "./table";
import { unpack } from "./unpack";

interface SideHead {
  name: string;
  answer: string;
  report: Report;
  waits: WaitReport | null;
  tail: TailReport | null;
  requests: RequestPage | null;
  requests_report: RequestReport | null;
  requests_answer: string | null;
  tables: TableHead[];
  step_lists: StepHead[][];
  at: number;
}

interface Header {
  schema: string;
  whylat: string;
  stages: [string, string][];
  sides: SideHead[];
  /** Why messages of the second take longer than those of the first; `null`: not known. */
  difference: TailReport | null;
}

/** The version of the data that this viewer reads. */
const SCHEMA = "whylat.view/2";

export class Side {
  readonly name: string;
  readonly answer: string;
  readonly report: Report;
  readonly waits: WaitReport | null;
  readonly tail: TailReport | null;
  readonly requests: RequestPage | null;
  readonly requestsReport: RequestReport | null;
  /** The answer about requests; `null`: the recording has none. */
  readonly requestsAnswer: string | null;
  /** Steps that messages have, by the number of the list. */
  readonly stepLists: StepHead[][];
  private readonly tables = new Map<string, Table>();
  private commOf: Map<string, string> | null = null;
  private derived = new Map<unknown, unknown>();

  constructor(head: SideHead, columns: Uint8Array) {
    this.name = head.name;
    this.answer = head.answer;
    this.report = head.report;
    this.waits = head.waits;
    this.tail = head.tail;
    this.requests = head.requests;
    this.requestsReport = head.requests_report;
    this.requestsAnswer = head.requests_answer;
    this.stepLists = head.step_lists;
    const own = columns.subarray(head.at);
    for (const table of head.tables) {
      this.tables.set(table.name, new Table(table, own));
    }
  }

  table(name: string): Table {
    const table = this.tables.get(name);
    if (!table) {
      throw new Error(`the page has no table ${name}`);
    }
    return table;
  }

  /** Returns the tables that the page holds only in part. */
  thinned(): Table[] {
    return [...this.tables.values()].filter((table) => table.rows < table.allRows);
  }

  /** Name of a process; `null`: not known. */
  comm(pid: string | null): string | null {
    if (!this.commOf) {
      this.commOf = new Map();
      const table = this.table("processes");
      const pids = table.words("pid");
      const comms = table.words("comm");
      for (let row = 0; row < table.rows; row++) {
        const at = pids.words[(pids.codes[row] ?? 0) - 1];
        const comm = comms.words[(comms.codes[row] ?? 0) - 1];
        if (at !== undefined && comm !== undefined) {
          this.commOf.set(at, comm);
        }
      }
    }
    return pid === null ? null : (this.commOf.get(pid) ?? null);
  }

  /** A process as it is printed: its name with its number. */
  process(pid: string | null): string {
    const comm = this.comm(pid);
    return comm === null ? (pid === null ? "process not known" : `process ${pid}`) : `${comm}[${pid}]`;
  }

  /** Returns a value that is computed once from this side, and cached. */
  once<T>(make: (side: Side) => T): T {
    if (!this.derived.has(make)) {
      this.derived.set(make, make(this));
    }
    return this.derived.get(make) as T;
  }
}

/** All that the page holds. */
export interface Book {
  whylat: string;
  /** Stages in order of decision, with what they mean. */
  stages: [string, string][];
  sides: Side[];
  /** Why messages of the second side take longer than those of the first; `null`: not known. */
  difference: TailReport | null;
}

export async function read(base64: string): Promise<Book> {
  const { header, columns } = await unpack(base64);
  const head = header as Header;
  if (head.schema !== SCHEMA) {
    throw new Error(`this viewer reads ${SCHEMA}, and the page holds ${head.schema}`);
  }
  const sides = head.sides.map((side) => new Side(side, columns));
  return { whylat: head.whylat, stages: head.stages, sides, difference: head.difference };
}

/** Returns the rows of each word of a column. */
export function rowsByCode(cells: Words, rows: number): Map<number, number[]> {
  const groups = new Map<number, number[]>();
  for (let row = 0; row < rows; row++) {
    const code = cells.codes[row] ?? 0;
    const group = groups.get(code);
    if (group) {
      group.push(row);
    } else {
      groups.set(code, [row]);
    }
  }
  return groups;
}
