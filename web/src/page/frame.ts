// The frame of all pages: names, navigation, selection, theme, keys.

import type { Book } from "../data/side";
import { button, el, show, short } from "../dom";
import { redrawAll } from "../plot/plot";
import { hideTip } from "../plot/tip";
import { type PageName, Store, write } from "../state/store";
import { isDark } from "../theme/palette";
import { answerPage } from "./answer";
import { connectionsPage } from "./connections";
import type { Page, Site } from "./page";
import { selectionBar } from "./selection";

const PAGES: [PageName, string, Page][] = [
  ["answer", "Answer", answerPage],
  ["connections", "Connections", connectionsPage],
];

export class Frame {
  private readonly store: Store;
  private readonly nav = el("nav", { "aria-label": "Pages" });
  private readonly bar = el("div");
  private readonly main = el("main", { id: "main", tabindex: "-1" });
  private readonly names = el("span.of");

  constructor(
    app: HTMLElement,
    private readonly book: Book,
  ) {
    this.store = new Store(book.sides.length > 1 ? "compare" : "answer");
    const top = el(
      "header.top",
      {},
      el("span.name", {}, "whylat"),
      this.nav,
      el("div.end", {}, this.names, this.themeButton()),
    );
    show(app, top, this.bar, this.main);
    this.store.subscribe((state, before) => {
      const isMoved = state.page !== before.page || state.side !== before.side;
      this.draw();
      if (isMoved) {
        scrollTo(0, 0);
      }
    });
    this.draw();
  }

  private draw(): void {
    const { state } = this.store;
    const side = this.book.sides[state.side] ?? this.book.sides[0];
    const page = PAGES.find(([name]) => name === state.page) ?? PAGES[0];
    if (!side || !page) {
      return;
    }
    hideTip();
    document.title = `${page[1]} · ${short(side.name, 60)} · whylat`;
    const links = PAGES.map(([name, title]) => {
      const href = `#${write({ ...state, page: name, view: null })}`;
      return el("a", { href, "aria-current": name === state.page ? "page" : null }, title);
    });
    show(this.nav, ...links);
    show(this.names, short(side.name, 80));
    const site: Site = { book: this.book, side, store: this.store, state };
    show(this.bar, selectionBar(site));
    show(this.main, ...page[2](site));
  }

  private themeButton(): HTMLElement {
    const toggle = button("", () => {
      document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
      label();
      redrawAll();
    });
    const label = () => {
      show(toggle, isDark() ? "Light" : "Dark");
      toggle.title = isDark() ? "Light background" : "Dark background";
    };
    label();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      label();
      redrawAll();
    });
    return toggle;
  }
}
