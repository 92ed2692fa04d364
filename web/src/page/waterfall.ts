// One request, step by step in the order of time: what took the time, in which thread, for what. A step leads to the
// threads at that time.

import type { HeldRequest, RequestStep } from "../data/contract";
import { type Requests, largest, partText } from "../data/requests";
import { button, el, prose } from "../dom";
import { bytes, counted, duration, percent } from "../format";
import { colourOf } from "../theme/palette";
import type { Site } from "./page";
import { processTitle } from "./who";

/** How much more than a step is shown on both of its sides, and at least, ns. */
const AROUND = 0.5;
const AROUND_LEAST_NS = 10_000;

/** The panel of a request. `wanted`: the one that a link names. */
export function waterfallPanel(
  site: Site,
  requests: Requests,
  request: HeldRequest | undefined,
  wanted: string | null,
): HTMLElement {
  if (!request || (wanted !== null && request.id !== wanted)) {
    const title = wanted === null ? "No request" : `Request ${wanted}`;
    const text =
      wanted === null
        ? "No request passes the filter."
        : `It is not in this page. \`whylat report --request ${wanted}\` shows it, if the recording has it.`;
    return el("section.panel.empty", {}, el("header", {}, el("h2", {}, title)), ...prose(text));
  }
  const sizes = `request ${bytes(request.request[1] - request.request[0])}, response ${bytes(request.response[1] - request.response[0])}`;
  const service = requests.titles[request.service] ?? "";
  const about = `${service}; begun ${duration(request.begin_ns)} after the start; ${sizes}; ${counted(request.calls, "call")}`;
  return el(
    "section.panel.requests",
    { "aria-label": `Request ${request.id}` },
    el(
      "header",
      {},
      el("h2", {}, `Request ${request.id}: ${duration(request.duration_ns)}`),
      el("span.soft", {}, about),
    ),
    request.path_is_left_out ? leftOut(request) : steps(site, requests, request),
    totals(requests, request),
  );
}

function leftOut(request: HeldRequest): HTMLElement {
  const text = `Its steps are not in this page, which would be too large. \`whylat report --request ${request.id}\` shows them.`;
  return el("p.soft", {}, ...prose(text));
}

/** Returns the steps of a request, one row each. */
function steps(site: Site, requests: Requests, request: HeldRequest): HTMLElement {
  const heads = ["After", "", "Took", "What", "Where"];
  const rows = request.path.map((step) => stepRow(site, requests, request, step));
  const cut = request.path_is_cut ? "There are more steps than are kept. The parts below count all." : null;
  return el(
    "div",
    {},
    el(
      "div.wide",
      { tabindex: "0", role: "region", "aria-label": "steps" },
      el(
        "table.waterfall",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...heads.map((name, at) => el(at === 0 || at === 2 ? "th.number" : "th", { scope: "col" }, name)),
          ),
        ),
        el("tbody", {}, ...rows),
      ),
    ),
    cut && el("p.soft", {}, cut),
  );
}

/** Returns the row of one step. */
function stepRow(site: Site, requests: Requests, request: HeldRequest, step: RequestStep): HTMLElement {
  const track = el("div.track", { "aria-hidden": "true" });
  const piece = el("i");
  piece.style.left = `${(100 * step.after_ns) / request.duration_ns}%`;
  piece.style.width = `${(100 * step.ns) / request.duration_ns}%`;
  piece.style.background = colourOf(step.part);
  track.append(piece);
  const [begin, end] = [request.begin_ns + step.after_ns, request.begin_ns + step.after_ns + step.ns];
  const around = Math.max(AROUND_LEAST_NS, step.ns * AROUND);
  const go = () =>
    site.store.go({
      page: "waits",
      view: [begin - around, end + around],
      selection: [{ by: "time", from: begin, to: end }],
    });
  const after = duration(step.after_ns);
  const link = button(after, go, { class: "link", title: "Show the threads at that time" });
  const line = el(
    "tr.pick",
    {},
    el("td.number", {}, link),
    el("td", {}, track),
    el("td.number", {}, duration(step.ns)),
    el("td.what", {}, partText(requests.page, step.part)),
    el("td.where", {}, ...where(step)),
  );
  line.addEventListener("click", (event) => {
    if (!(event.target as Element).closest("button")) go();
  });
  return line;
}

/** The thread, and what it was about: as `whylat report --request` says it. */
function where(step: RequestStep): (Node | string)[] {
  const thread = step.tid === undefined ? null : `${processTitle(step.process ?? null)} thread ${step.tid}`;
  const waker = step.woken_by && `ended by ${processTitle(step.woken_by.process)} thread ${step.woken_by.tid}`;
  const rest = [
    step.connection,
    step.behind === undefined ? null : `behind ${counted(step.behind, "request")}`,
    waker,
    step.stack,
  ].filter((text) => text);
  return [...(thread ? [el("div", {}, thread)] : []), ...rest.map((text) => el("div.soft", {}, text))];
}

function totals(requests: Requests, request: HeldRequest): HTMLElement {
  const items = largest(request.parts).map(([name, ns]) => {
    const key = el("span.key");
    key.style.background = colourOf(name);
    return el("li", {}, key, `${partText(requests.page, name)} ${duration(ns)} (${percent(ns / request.duration_ns)})`);
  });
  return el("ul.legend", { "aria-label": "Parts of the request" }, ...items);
}
