// What every page gets.

import type { Book, Side } from "../data/side";
import type { State, Store } from "../state/store";

export interface Site {
  book: Book;
  side: Side;
  store: Store;
  state: State;
}

/** Draws a page for a state. */
export type Page = (site: Site) => Node[];
