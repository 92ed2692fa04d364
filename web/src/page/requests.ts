// Requests: what their time went to, by service; when the slow ones were; each by itself.

import type { HeldRequest, Parts, RequestService } from "../data/contract";
import {
  type HeatCell,
  type Requests,
  firstPart,
  heatOf,
  isTouched,
  largest,
  partText,
  requestsOf,
  rowNs,
  serviceTitle,
  servicesOf,
  shareWords,
} from "../data/requests";
import { type Child, button, el, prose, short } from "../dom";
import { count, counted, duration, percent } from "../format";
import { shareBar } from "../plot/bar";
import { heatColour, heatPlot } from "../plot/heat";
import { asTable } from "../plot/plot";
import { rowsPassing } from "../state/filter";
import { colourOf } from "../theme/palette";
import { grid } from "./grid";
import type { Page, Site } from "./page";
import { waterfallPanel } from "./waterfall";

/** Services in the table at first. */
const SERVICES = 10;

/** Parts in the legend: those with this share of the time of a service. */
const LEGEND_LEAST = 0.005;

export const requestsPage: Page = (site) => {
  const requests = site.side.once(requestsOf);
  if (!requests) {
    const text =
      "This recording holds no requests. Record with `--detail waits` (the default) to see how long each took and where its time went.";
    return [el("section.panel.empty", {}, ...prose(text))];
  }
  const rows = rowsPassing(site.state.filters, requests.facts, requests.held.length);
  const shown = [...rows].map((row) => requests.held[row] as HeldRequest);
  const picked = requests.held.find((request) => request.id === site.state.request) ?? shown[0];
  return [
    el("header.lead", {}, el("h1", {}, site.side.requestsAnswer ?? ""), findingsLink(site)),
    servicesPanel(site, requests, rows),
    heatPanel(site, requests),
    el(
      "div.wider",
      {},
      listPanel(site, requests, shown, picked),
      waterfallPanel(site, requests, picked, site.state.request),
    ),
  ];
};

/** Names the findings, which are on another page. */
function findingsLink(site: Site): HTMLElement {
  const { findings } = site.side.report;
  const worst = findings[0];
  const open = () => site.store.go({ page: "answer" });
  return worst
    ? el("p", {}, button(`${counted(findings.length, "finding")}: ${worst.headline}`, open, { class: "link" }))
    : el("p.soft", {}, "No finding.");
}

/** Returns the table of services. */
function servicesPanel(site: Site, requests: Requests, rows: Uint32Array): HTMLElement {
  const isCounted = isTouched(site.state.filters) && requests.isWhole;
  const services = isCounted ? servicesOf(requests, rows) : requests.report.services;
  const note =
    isTouched(site.state.filters) && !requests.isWhole
      ? "Numbers of the whole recording: the filter chooses among the requests below."
      : isCounted
        ? "Numbers of the requests that the filter lets pass."
        : "Click a service, or a part below, to select it.";
  const place = el("tbody", {}, ...services.slice(0, SERVICES).map((service) => serviceRow(site, requests, service)));
  const heads = ["Service", "Requests", "p50", "p99", "Max", "Time of all", "Time of the slowest 1 %"];
  const isNumber = (at: number) => at > 0 && at < 5;
  const rest = services.slice(SERVICES);
  const more = button(`Show ${count(rest.length)} more`, () => {
    place.append(...rest.splice(0).map((service) => serviceRow(site, requests, service)));
    more.remove();
  });
  return el(
    "section.panel.requests",
    { "aria-label": "Services" },
    el("header", {}, el("h2", {}, "Services"), el("span.soft", {}, note)),
    el(
      "div.wide",
      { tabindex: "0", role: "region", "aria-label": "services" },
      el(
        "table.services",
        {},
        el(
          "thead",
          {},
          el("tr", {}, ...heads.map((name, at) => el(isNumber(at) ? "th.number" : "th", { scope: "col" }, name))),
        ),
        place,
      ),
    ),
    rest.length > 0 ? more : null,
    partLegend(site, requests, services),
    ...notes(requests),
  );
}

function serviceRow(site: Site, requests: Requests, service: RequestService): HTMLElement {
  const title = serviceTitle(service);
  const select = () => site.store.select([{ by: "service", value: title }]);
  const { p50, p99, max } = service.duration_ns;
  const isPicked = site.state.selection.some((term) => term.by === "service" && term.value === title);
  const numbers = [count(service.requests), duration(p50), duration(p99), duration(max)];
  return el(
    "tr",
    { "aria-selected": isPicked ? "true" : null },
    el("td.service", {}, button(title, select, { class: "link cell" })),
    ...numbers.map((text) => el("td.number", {}, text)),
    partsCell(requests, service.parts.all),
    partsCell(requests, service.parts.slowest),
  );
}

/** A bar of parts with the largest in words. */
function partsCell(requests: Requests, parts: Parts): HTMLElement {
  const words = shareWords(requests.page, parts);
  const say = (name: string) => partText(requests.page, name);
  return el("td.parts", {}, shareBar(largest(parts), words, false, say), el("div.soft", {}, words));
}

/** The colours of the parts; a click selects the requests with this as their largest part. */
function partLegend(site: Site, requests: Requests, services: RequestService[]): HTMLElement {
  const isLarge = (name: string) =>
    services.some((service) =>
      [service.parts.all, service.parts.slowest].some((parts) => (parts[name] ?? 0) >= LEGEND_LEAST),
    );
  const names = requests.page.part_names.filter(([name]) => isLarge(name));
  const items = names.map(([name, text]) => {
    const key = el("span.key");
    key.style.background = colourOf(name);
    const select = () => site.store.select([{ by: "part", value: name }]);
    return el("li", {}, key, button(text, select, { class: "link", title: `Requests that were mostly: ${text}` }));
  });
  return el("ul.legend", { "aria-label": "Parts" }, ...items);
}

/** Draws connections without requests, and time that is not known. */
function notes(requests: Requests): HTMLElement[] {
  const { report } = requests;
  const waits = report.coverage.find((it) => it.probe === "waits");
  const lines = [
    !waits || waits.state === "off"
      ? "The activity of threads was not recorded. Hint: `--detail waits`."
      : null,
    report.unanswered > 0 ? `${counted(report.unanswered, "request")} without a response.` : null,
    report.broken > 0 ? `${counted(report.broken, "request")} not judged: rows of their calls were lost.` : null,
    ...report.not_requests.map(
      (it) => `${counted(it.connections, "connection")} of ${it.name} at ${it.address}: ${it.why}.`,
    ),
  ].filter((line) => line !== null);
  const shown = lines.slice(0, 4);
  const more = lines.length - shown.length;
  const last = more > 0 ? [`${count(more)} more: \`whylat report --requests\` lists them.`] : [];
  return [...shown, ...last].map((line) => el("p.soft.note", {}, ...prose(line)));
}

/** Returns the plot of durations over time. */
function heatPanel(site: Site, requests: Requests): HTMLElement {
  const { cells, binNs, isExact } = heatOf(requests, site.state.filters);
  const title = el("h2", {}, "When, and how long");
  if (cells.length === 0) {
    return el("section.panel", {}, el("header", {}, title), "No request passes the filter.");
  }
  const number = cells.reduce((sum, cell) => sum + cell.count, 0);
  const of = isExact ? counted(number, "request") : `${count(number)} of ${heldWords(requests)}`;
  const pick = (times: [number, number], durations: [number, number]) => {
    const inside = (ns: number, [from, to]: [number, number]) => from <= ns && ns < to;
    const found = requests.held.find((it) => inside(it.begin_ns, times) && inside(it.duration_ns, durations));
    const terms = [
      { by: "time" as const, from: times[0], to: times[1] },
      { by: "duration" as const, from: durations[0], to: durations[1] },
    ];
    site.store.go({ selection: terms, ...(found ? { request: found.id } : {}) });
  };
  const plot = heatPlot({ cells, binNs, store: site.store, height: 250, pick });
  site.live(() => plot.redraw());
  return el(
    "section.panel",
    { "aria-label": "Requests by time and duration" },
    el(
      "header",
      {},
      title,
      el("span.soft", {}, `${of}. Drag to select a time and durations; click a cell for its slowest request.`),
    ),
    plot.element,
    heatLegend(cells),
    asTable(["begun", "took", "requests"], () => heatRows(cells, binNs)),
  );
}

function heatRows(cells: HeatCell[], binNs: number): string[][] {
  const sorted = [...cells].sort((a, b) => a.bin - b.bin || a.row - b.row);
  return sorted.map(({ bin, row, count: number }) => [
    `${duration(bin * binNs)} to ${duration((bin + 1) * binNs)}`,
    `${duration(rowNs(row))} to ${duration(rowNs(row + 1))}`,
    count(number),
  ]);
}

function heatLegend(cells: HeatCell[]): HTMLElement {
  const most = Math.max(...cells.map((cell) => cell.count));
  const steps = [...new Set([1, Math.round(most ** (1 / 3)), Math.round(most ** (2 / 3)), most])];
  const items = steps.map((step) => {
    const key = el("span.key");
    key.style.background = heatColour(step, most);
    return el("li", {}, key, counted(step, "request"));
  });
  return el("ul.legend", { "aria-label": "Requests in a cell" }, ...items);
}

/** Returns a text about the requests that the page holds. */
function heldWords(requests: Requests): string {
  return requests.isWhole
    ? counted(requests.all, "request")
    : `the ${count(requests.held.length)} requests in this page`;
}

/** Returns the list of slowest requests. */
function listPanel(
  site: Site,
  requests: Requests,
  shown: HeldRequest[],
  picked: HeldRequest | undefined,
): HTMLElement {
  const say = (name: string) => partText(requests.page, name);
  const title = (request: HeldRequest) => requests.titles[request.service] ?? "";
  const parts = (request: HeldRequest): Child => {
    const shares = largest(request.parts).map(([name, ns]): [string, number] => [name, ns / request.duration_ns]);
    const words = shares.map(([name, share]) => `${say(name)} ${percent(share)}`).join(", ");
    return shareBar(shares, words, false, say);
  };
  const table = grid({
    label: "requests",
    rows: shown,
    words: (request) => `${request.id} ${title(request)} ${say(firstPart(request.parts))}`,
    pick: (request) => site.store.go({ request: request.id }),
    isPicked: (request) => request === picked,
    sorted: 1,
    columns: [
      { title: "Request", key: (request) => request.id, cell: (request) => request.id },
      {
        title: "Took",
        number: true,
        key: (request) => request.duration_ns,
        cell: (request) => duration(request.duration_ns),
      },
      { title: "Begun", number: true, key: (request) => request.begin_ns, cell: (request) => duration(request.begin_ns) },
      {
        title: "Service",
        key: title,
        cell: (request) => el("span.clip", { title: title(request) }, short(title(request), 80)),
      },
      {
        title: "Largest part",
        key: (request) => say(firstPart(request.parts)),
        cell: (request) => say(firstPart(request.parts)),
      },
      { title: "Parts", cell: parts },
    ],
  });
  const part = requests.isWhole
    ? ""
    : ` The page holds ${count(requests.held.length)} of ${count(requests.all)}: the slowest of each service, and a sample.`;
  const passing = isTouched(site.state.filters) ? `${count(shown.length)} of ${heldWords(requests)} pass the filter.` : "";
  const note = `${passing}${part}` || counted(requests.all, "request");
  return el(
    "section.panel.requests",
    { "aria-label": "Requests" },
    el("header", {}, el("h2", {}, "Requests, slowest first"), el("span.soft", {}, note)),
    table,
  );
}
