// A table that is sorted by its heads and searched by its words. It draws a limited number of rows.

import { type Child, button, el, show } from "../dom";
import { count } from "../format";

/** Rows that are drawn at first, and more of on demand. */
const DRAWN = 100;

export interface Column<T> {
  title: string;
  /** Content of the cell. */
  cell: (row: T) => Child;
  /** Key of the order; absent: the column does not sort. Numbers are sorted largest first. */
  key?: (row: T) => number | string;
  number?: boolean;
  doc?: string;
}

export interface Grid<T> {
  label: string;
  rows: T[];
  columns: Column<T>[];
  /** Text that the search reads. */
  words?: (row: T) => string;
  pick?: (row: T) => void;
  isPicked?: (row: T) => boolean;
  /** Index of the column that it is sorted by at first; absent: rows are in the order given. */
  sorted?: number;
}

/** Returns a table that sorts by the column that the user selects. */
export function grid<T>(options: Grid<T>): HTMLElement {
  let [sorted, down, most, text] = [options.sorted ?? -1, true, DRAWN, ""];
  const place = el("div.scroll", { role: "region", "aria-label": options.label, tabindex: "0" });
  const more = el("p.soft");
  const draw = () => {
    const needle = text.toLowerCase();
    const found = needle
      ? options.rows.filter((row) => options.words?.(row).toLowerCase().includes(needle))
      : options.rows;
    const rows = inOrder(found, options.columns[sorted]?.key, down);
    const head = options.columns.map((column, index) =>
      headCell(column, index === sorted ? down : null, () => {
        [down, sorted] = [index === sorted ? !down : true, index];
        draw();
      }),
    );
    const body = rows.slice(0, most).map((row) => bodyRow(options, row));
    show(place, el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)));
    const left = rows.length - most;
    const add = () => {
      most += DRAWN * 10;
      draw();
    };
    const none = rows.length === 0 ? (needle ? "No matches." : "Nothing to show.") : null;
    show(more, none, left > 0 && `${count(left)} more. `, left > 0 && button("Show more", add, { class: "link" }));
  };
  draw();
  return el(
    "div",
    {},
    options.words
      ? searchBox(options.label, (given) => {
          text = given;
          draw();
        })
      : null,
    place,
    more,
  );
}

function searchBox(label: string, search: (text: string) => void): HTMLElement {
  const input = el("input", { type: "search", placeholder: "Search ( / )", "aria-label": `Search ${label}` });
  input.addEventListener("input", () => search(input.value.trim()));
  return el("p.search", {}, input);
}

function headCell<T>(column: Column<T>, down: boolean | null, sort: () => void): HTMLElement {
  const order = down === null ? null : down ? "descending" : "ascending";
  const title = down === null ? column.title : `${column.title} ${down ? "↓" : "↑"}`;
  const inner = column.key
    ? button(title, sort, { title: column.doc ?? null })
    : el("span", { title: column.doc ?? null }, title);
  return el(column.number ? "th.number" : "th", { scope: "col", "aria-sort": order }, inner);
}

/** Returns one row of a table. */
function bodyRow<T>(options: Grid<T>, row: T): HTMLElement {
  const { pick } = options;
  const isPicked = options.isPicked?.(row) ?? false;
  const cells = options.columns.map((column, index) => {
    const inner = column.cell(row);
    // One real button a row, so that the keyboard reaches it.
    const content = pick && index === 0 ? button(inner, () => pick(row), { class: "link cell" }) : inner;
    return el(column.number ? "td.number" : "td", {}, content);
  });
  const line = el("tr", { "aria-selected": pick && isPicked ? "true" : null }, ...cells);
  if (pick) {
    line.classList.add("pick");
    line.addEventListener("click", (event) => {
      if (!(event.target as Element).closest("button")) {
        pick(row);
      }
    });
  }
  return line;
}

function inOrder<T>(rows: T[], key: Column<T>["key"], down: boolean): T[] {
  if (!key) {
    return rows;
  }
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [key(a), key(b)];
    if (typeof left === "number" && typeof right === "number") {
      // What is unknown comes last in either order.
      const [x, y] = [Number.isNaN(left), Number.isNaN(right)];
      return x || y ? Number(x) - Number(y) : sign * (left - right);
    }
    return -sign * String(left).localeCompare(String(right));
  });
}
