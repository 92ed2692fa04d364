// What is selected and what is filtered, in words, with the steps that can be taken.

import { partText } from "../data/requests";
import { button, el, short } from "../dom";
import { duration, words } from "../format";
import type { Term } from "../state/filter";
import type { Site } from "./page";

/** The bar; `null`: nothing is selected. */
export function selectionBar(site: Site): HTMLElement | null {
  const { store, state } = site;
  if (state.filters.length === 0 && state.selection.length === 0) {
    return null;
  }
  const filters = state.filters.map((filter, index) => {
    const text = filter.terms.map((term) => termWords(site, term)).join(" and ");
    const remove = () => store.go({ filters: state.filters.filter((_, at) => at !== index) });
    const label = filter.out ? `without ${text}` : `only ${text}`;
    return el(
      filter.out ? "span.chip.out" : "span.chip",
      { title: label },
      el("span", {}, label),
      button("×", remove, { "aria-label": `Remove the filter: ${label}` }),
    );
  });
  const selected = state.selection.map((term) => termWords(site, term)).join(" and ");
  const steps = state.selection.length > 0 && [
    el("span", {}, `Selected: ${selected}`),
    button("Filter in", () => store.filter(false), { title: "Show only this (f)" }),
    button("Filter out", () => store.filter(true), { title: "Show all but this (x)" }),
    button("Clear", () => store.select([]), { title: "Escape" }),
  ];
  return el(
    "div.selection",
    { role: "region", "aria-label": "Selection" },
    ...filters,
    ...(steps || []),
    state.filters.length > 0 && button("Back", () => history.back(), { title: "Undo the last step (b)" }),
  );
}

/** A term as people say it. */
export function termWords(site: Site, term: Term): string {
  const value = term.value ?? "";
  switch (term.by) {
    case "time":
      return `${duration(term.from ?? 0)} to ${duration(term.to ?? 0)}`;
    case "latency":
      return `latency ${duration(term.from ?? 0)} to ${duration(term.to ?? 0)}`;
    case "duration":
      return `duration ${duration(term.from ?? 0)} to ${duration(term.to ?? 0)}`;
    case "part":
      return `mostly ${partText(site.side.requests, value)}`;
    case "conn": {
      const found = site.side.report.connections.find((connection) => String(connection.id) === value);
      return found ? `connection ${found.local} → ${found.remote}` : `connection ${value}`;
    }
    case "pid":
      return site.side.process(value);
    case "tid":
      return `thread ${value}`;
    default:
      return `${words(term.by)} ${short(value, 60)}`;
  }
}
