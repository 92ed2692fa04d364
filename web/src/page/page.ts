// What every page gets.

import type { Book, Side } from "../data/side";
import type { State, Store } from "../state/store";

export interface Site {
  book: Book;
  side: Side;
  store: Store;
  /** As the page is drawn; zoom and selection move on in `store.state`. */
  state: State;
  /** Calls back when only zoom or selection have changed: pages are then not drawn again. */
  live: (changed: () => void) => void;
}

/** Draws a page for a state. */
export type Page = (site: Site) => Node[];
