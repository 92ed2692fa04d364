// The state of the page: which page, which recording, what is selected. It is the URL's fragment and nothing else, so
// that a link reproduces it and the browser's Back undoes a step.

import { type Filter, type Term, readTerms, writeTerms } from "./filter";

export type PageName = "requests" | "answer" | "connections" | "waits" | "messages" | "compare";
const PAGES: PageName[] = ["requests", "answer", "connections", "waits", "messages", "compare"];

export interface State {
  page: PageName;
  /** Index of the recording, of several. */
  side: number;
  filters: Filter[];
  /** Selection that may become a filter. */
  selection: Term[];
  /** Connection that is shown in full. */
  conn: string | null;
  /** Message that is shown in full. */
  message: string | null;
  /** Request that is shown in full. */
  request: string | null;
  /** Object with its waits shown in full. */
  object: string | null;
  /** Part of the time axis that is zoomed to, ns from the start; `null`: all. */
  view: [number, number] | null;
}

type Listener = (state: State, before: State) => void;

export class Store {
  private now: State;
  private readonly listeners: Listener[] = [];

  constructor(private readonly first: PageName) {
    this.now = this.read();
    addEventListener("hashchange", () => this.become(this.read()));
  }

  get state(): State {
    return this.now;
  }

  subscribe(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** A step that Back undoes. */
  go(change: Partial<State>): void {
    const next = { ...this.now, ...change };
    history.pushState(null, "", `#${write(next)}`);
    this.become(next);
  }

  /** Applies a small change without an entry for Back: a brush that moves, a zoom. */
  adjust(change: Partial<State>): void {
    const next = { ...this.now, ...change };
    history.replaceState(null, "", `#${write(next)}`);
    this.become(next);
  }

  select(terms: Term[]): void {
    this.adjust({ selection: terms });
  }

  /** The selection becomes a filter: only that, or all but that. */
  filter(out: boolean): void {
    const { selection, filters } = this.now;
    if (selection.length > 0) {
      this.go({ filters: [...filters, { out, terms: selection }], selection: [], view: null });
    }
  }

  private become(next: State): void {
    const before = this.now;
    this.now = next;
    for (const listener of this.listeners) {
      listener(next, before);
    }
  }

  private read(): State {
    const given = new URLSearchParams(location.hash.slice(1));
    const filters: Filter[] = [];
    for (const [name, text] of given) {
      const terms = name === "in" || name === "out" ? readTerms(text) : [];
      if (terms.length > 0) {
        filters.push({ out: name === "out", terms });
      }
    }
    const page = given.get("page") as PageName | null;
    const [from, to] = (given.get("view") ?? "").split(":").map(Number);
    const isView = from !== undefined && to !== undefined && from < to;
    return {
      page: page && PAGES.includes(page) ? page : this.first,
      side: Number(given.get("side") ?? 0) || 0,
      filters,
      selection: readTerms(given.get("select") ?? ""),
      conn: given.get("conn"),
      message: given.get("message"),
      request: given.get("request"),
      object: given.get("object"),
      view: isView ? [from, to] : null,
    };
  }
}

/** The fragment of a state. */
export function write(state: State): string {
  const out = new URLSearchParams({ page: state.page });
  if (state.side > 0) out.set("side", String(state.side));
  for (const filter of state.filters) {
    out.append(filter.out ? "out" : "in", writeTerms(filter.terms));
  }
  if (state.selection.length > 0) out.set("select", writeTerms(state.selection));
  if (state.conn) out.set("conn", state.conn);
  if (state.message) out.set("message", state.message);
  if (state.request) out.set("request", state.request);
  if (state.object) out.set("object", state.object);
  if (state.view) out.set("view", state.view.map(Math.round).join(":"));
  return out.toString();
}
