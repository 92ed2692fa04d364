// The frame of all pages: names, navigation, selection, theme, keys.

import type { Book } from "../data/side";
import { button, el, show, short } from "../dom";
import { hideTip } from "../plot/tip";
import { type PageName, type State, Store, write } from "../state/store";
import { isDark } from "../theme/palette";
import { answerPage } from "./answer";
import { comparePage } from "./compare";
import { connectionsPage } from "./connections";
import { helpDialog } from "./help";
import { listen } from "./keys";
import { messagesPage } from "./messages";
import type { Page, Site } from "./page";
import { requestsPage } from "./requests";
import { selectionBar } from "./selection";
import { waitsPage } from "./waits";

const PAGES: [PageName, string, Page][] = [
  ["answer", "Answer", answerPage],
  ["connections", "Connections", connectionsPage],
  ["waits", "Waits", waitsPage],
  ["messages", "Messages", messagesPage],
];
const REQUESTS: [PageName, string, Page] = ["requests", "Requests", requestsPage];
const COMPARE: [PageName, string, Page] = ["compare", "Compare", comparePage];

/** Whether only zoom or selection differ. */
function isSmall(state: State, before: State): boolean {
  return write({ ...state, view: null, selection: [] }) === write({ ...before, view: null, selection: [] });
}

export class Frame {
  private readonly store: Store;
  private readonly nav = el("nav", { "aria-label": "Pages" });
  private readonly bar = el("div");
  private readonly main = el("main", { id: "main", tabindex: "-1" });
  private readonly names = el("span.of");
  private readonly theme = button("", () => this.switchTheme());
  private readonly help = helpDialog();
  private readonly pages: [PageName, string, Page][];
  private lives: (() => void)[] = [];

  constructor(
    app: HTMLElement,
    private readonly book: Book,
  ) {
    const isPair = book.sides.length > 1;
    const hasRequests = book.sides.some((side) => side.requestsAnswer !== null);
    this.pages = [...(isPair ? [COMPARE] : []), ...(hasRequests ? [REQUESTS] : []), ...PAGES];
    const isFound = book.sides.some((side) => side.report.findings.length > 0);
    const alone = hasRequests && !isFound ? "requests" : "answer";
    this.store = new Store(isPair ? "compare" : alone);
    const top = el(
      "header.top",
      {},
      el("span.name", {}, "whylat"),
      this.nav,
      el(
        "div.end",
        {},
        this.names,
        this.theme,
        button("?", () => this.help.showModal(), { "aria-label": "Help", title: "Help ( ? )" }),
      ),
    );
    show(app, top, this.bar, this.main, this.help);
    this.labelTheme();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    listen({
      store: this.store,
      pages: this.pages.map(([name]) => name),
      help: () => this.help.showModal(),
      theme: () => this.switchTheme(),
    });
    this.store.subscribe((state, before) => {
      if (isSmall(state, before)) {
        this.drawBar();
        for (const changed of this.lives) {
          changed();
        }
        return;
      }
      this.draw();
      if (state.page !== before.page || state.side !== before.side) {
        scrollTo(0, 0);
      }
    });
    this.draw();
  }

  private site(): Site | null {
    const { state } = this.store;
    const side = this.book.sides[state.side] ?? this.book.sides[0];
    const live = (changed: () => void) => this.lives.push(changed);
    return side ? { book: this.book, side, store: this.store, state, live } : null;
  }

  private drawBar(): void {
    const site = this.site();
    show(this.bar, site && selectionBar(site));
  }

  private draw(): void {
    const { state } = this.store;
    const site = this.site();
    const page = this.pages.find(([name]) => name === state.page) ?? this.pages[0];
    if (!site || !page) {
      return;
    }
    hideTip();
    this.lives = [];
    const { side } = site;
    document.title = `${page[1]} · ${short(side.name, 60)} · whylat`;
    const links = this.pages.map(([name, title]) => {
      const href = `#${write({ ...state, page: name, view: null })}`;
      return el("a", { href, "aria-current": name === state.page ? "page" : null }, title);
    });
    show(this.nav, ...links);
    this.drawNames(state, page[0]);
    this.drawBar();
    show(this.main, ...page[2](site));
  }

  /** Returns the name of the recording, with a choice if there are two. */
  private drawNames(state: State, page: PageName): void {
    const { sides } = this.book;
    if (sides.length < 2) {
      show(this.names, short(sides[0]?.name ?? "", 80));
    } else if (page === "compare") {
      show(this.names, short(sides.map((side) => side.name).join(" and "), 80));
    } else {
      const choices = sides.map((side, index) => {
        const label = `${"AB"[index] ?? ""}: ${short(side.name, 30)}`;
        const go = () =>
          this.store.go({
            side: index,
            filters: [],
            selection: [],
            conn: null,
            message: null,
            request: null,
            object: null,
            view: null,
          });
        return button(label, go, { "aria-pressed": index === state.side ? "true" : "false" });
      });
      show(this.names, el("span.sides", {}, ...choices));
    }
  }

  private switchTheme(): void {
    document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
    this.recolour();
  }

  /** Colours of data are set as pages are drawn. */
  private recolour(): void {
    this.labelTheme();
    this.draw();
  }

  private labelTheme(): void {
    show(this.theme, isDark() ? "Light" : "Dark");
    this.theme.title = isDark() ? "Light background ( t )" : "Dark background ( t )";
  }
}
