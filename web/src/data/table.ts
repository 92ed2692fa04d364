// A table of the recording: typed columns, decoded when they are first asked for. Format: crates/view/src/html/column.rs.

export interface ColumnHead {
  name: string;
  doc: string;
  unit: string;
  encoding: "whole" | "real" | "word";
  near: string;
  at: number;
  bytes: number;
  words?: string[];
}

export interface TableHead {
  name: string;
  doc: string;
  rows: number;
  all_rows: number;
  columns: ColumnHead[];
}

/** Cells that are words: 0 is none, n is `words[n - 1]`. */
export interface Words {
  codes: Uint32Array;
  words: string[];
}

/** The word of a cell; `null`: none. */
export function wordAt(cells: Words, row: number): string | null {
  const code = cells.codes[row] ?? 0;
  return code === 0 ? null : (cells.words[code - 1] ?? null);
}

export class Table {
  readonly rows: number;
  /** Rows in the recording: more than `rows` if the page holds only every nth. */
  readonly allRows: number;
  private readonly heads = new Map<string, ColumnHead>();
  private readonly numbersOf = new Map<string, Float64Array>();
  private readonly wordsOf = new Map<string, Words>();

  constructor(
    readonly head: TableHead,
    private readonly bytes: Uint8Array,
  ) {
    this.rows = head.rows;
    this.allRows = head.all_rows;
    for (const column of head.columns) {
      this.heads.set(column.name, column);
    }
  }

  /** A column of numbers; NaN is null. */
  numbers(name: string): Float64Array {
    let cells = this.numbersOf.get(name);
    if (!cells) {
      cells = this.decode(this.column(name));
      this.numbersOf.set(name, cells);
    }
    return cells;
  }

  /** A column of words. */
  words(name: string): Words {
    let cells = this.wordsOf.get(name);
    if (!cells) {
      const head = this.column(name);
      cells = { codes: varints(this.bytesOf(head), this.rows), words: head.words ?? [] };
      this.wordsOf.set(name, cells);
    }
    return cells;
  }

  private column(name: string): ColumnHead {
    const head = this.heads.get(name);
    if (!head) {
      throw new Error(`table ${this.head.name} has no column ${name}`);
    }
    return head;
  }

  private bytesOf(head: ColumnHead): Uint8Array {
    return this.bytes.subarray(head.at, head.at + head.bytes);
  }

  private decode(head: ColumnHead): Float64Array {
    const bytes = this.bytesOf(head);
    if (head.encoding === "real") {
      return reals(bytes, this.rows);
    }
    const near = head.near === "zero" || head.near === "previous" ? null : this.numbers(head.near);
    return wholes(bytes, this.rows, head.near === "previous", near);
  }
}

function reals(bytes: Uint8Array, rows: number): Float64Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const cells = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    cells[row] = view.getFloat64(row * 8, true);
  }
  return cells;
}

/** Decodes one number a row: seven bits a byte, the low ones first. */
function varints(bytes: Uint8Array, rows: number): Uint32Array {
  const cells = new Uint32Array(rows);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    let value = 0;
    let shift = 0;
    let byte: number;
    do {
      byte = bytes[at++] ?? 0;
      value |= (byte & 0x7f) << shift;
      shift += 7;
    } while (byte & 0x80);
    cells[row] = value;
  }
  return cells;
}

/** Zigzag differences plus one; sums are kept in floats, which hold 53 bits. */
function wholes(bytes: Uint8Array, rows: number, previous: boolean, near: Float64Array | null): Float64Array {
  const cells = new Float64Array(rows);
  let at = 0;
  let last = 0;
  for (let row = 0; row < rows; row++) {
    let value = 0;
    let weight = 1;
    let byte: number;
    do {
      byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * weight;
      weight *= 128;
    } while (byte & 0x80);
    if (value === 0) {
      cells[row] = NaN;
      continue;
    }
    const zigzag = value - 1;
    const difference = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    let base = previous ? last : 0;
    if (near) {
      const other = near[row] ?? NaN;
      base = Number.isNaN(other) ? 0 : other;
    }
    last = base + difference;
    cells[row] = last;
  }
  return cells;
}
