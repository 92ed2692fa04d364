// Why the slow messages of one application were slow: causes as box plots, with their parts.

import type { Cause, TailGroup } from "../data/contract";
import { button, el } from "../dom";
import { count, counted, duration, words } from "../format";
import { makeBoxDrawer } from "../plot/box";
import { colourOf } from "../theme/palette";
import type { Site } from "./page";
import { cores, queueing } from "./queueing";

/** Returns the panel of causes of slow messages of a program. */
export function causesPanel(site: Site, group: TailGroup): HTMLElement {
  const who = group.application ?? "an unknown process";
  const tail = site.side.tail?.tail ?? "";
  const whole = site.state.filters.length > 0 ? "Of the whole recording, whatever the filters: " : "";
  const known = `${whole}CPU activity recorded for ${count(group.tail.kept)} of ${counted(group.tail.messages, "message")} in ${tail}`;
  const longer =
    group.deviation_ns === null
      ? ""
      : `; on average ${duration(group.deviation_ns)} longer than the usual ${duration(group.usual_ns)}`;
  const causes = group.causes.filter((cause) => cause.messages > 0);
  return el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el("h2", {}, `Why messages ${group.direction} by ${who} were slow`),
      el("span.soft", {}, `${known}${longer}`),
    ),
    causes.length > 0 ? causeTable(site, causes) : el("p.soft", {}, "No cause was found."),
    el("div.columns.part", {}, queueing(group), cores(group)),
  );
}

/** Returns the table of causes, the most frequent first. */
function causeTable(site: Site, causes: Cause[]): HTMLElement {
  const box = makeBoxDrawer(causes.map((cause) => cause.deviation_ns));
  const picked = site.state.selection.find((term) => term.by === "cause")?.value;
  const body = el("tbody");
  const fill = (open: string | undefined) => {
    body.replaceChildren(
      ...causes.flatMap((cause) =>
        causeRows(site, cause, box, cause.what === open, () => {
          const next = open === cause.what ? undefined : cause.what;
          site.store.select(next === undefined ? [] : [{ by: "cause", value: next }]);
          fill(next);
        }),
      ),
    );
  };
  fill(picked);
  const ends = causes.map((cause) => cause.deviation_ns);
  const [least, most] = [Math.min(...ends.map((it) => it.least)), Math.max(...ends.map((it) => it.most))];
  const added = `Delay of a message, ${duration(least)} to ${duration(most)}, logarithmic`;
  const heads: [string, boolean][] = [
    ["Cause", false],
    ["First cause of", true],
    ["Messages", true],
    [added, false],
    ["p50", true],
    ["Total", true],
    ["Examples", false],
  ];
  const head = heads.map(([name, number]) => el(number ? "th.number" : "th", { scope: "col" }, name));
  return el(
    "div.wide",
    { tabindex: "0", role: "region", "aria-label": "causes" },
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), body),
  );
}

/** Returns the rows of one cause. */
function causeRows(
  site: Site,
  cause: Cause,
  box: ReturnType<typeof makeBoxDrawer>,
  isOpen: boolean,
  toggle: () => void,
): HTMLElement[] {
  const key = el("span.key");
  key.style.background = colourOf(cause.rule);
  const name = button(cause.what, toggle, { class: "link", "aria-expanded": isOpen ? "true" : "false" });
  const examples = cause.examples
    .slice(0, 2)
    .flatMap((id, at) => [at > 0 ? ", " : "", button(id, () => site.store.go({ message: id }), { class: "link" })]);
  const line = el(
    "tr",
    { "aria-selected": isOpen ? "true" : null },
    el("td", {}, key, " ", name, el("div.soft", {}, `${words(cause.rule)}, ${words(cause.role)} core`)),
    el("td.number", {}, count(cause.first)),
    el("td.number", {}, count(cause.messages)),
    el("td", {}, box(cause.deviation_ns, colourOf(cause.rule))),
    el("td.number", {}, duration(cause.deviation_ns.median)),
    el("td.number", {}, duration(cause.sum_ns)),
    el("td", {}, ...examples),
  );
  if (!isOpen) {
    return [line];
  }
  const parts = cause.parts.map((part) =>
    el(
      "tr.parts",
      {},
      el("td", {}, part.name, el("div.soft", {}, words(part.anomaly))),
      el("td", {}),
      el("td.number", {}, count(part.messages)),
      el("td", {}, box(part.deviation_ns, colourOf(cause.rule))),
      el("td.number", {}, duration(part.deviation_ns.median)),
      el("td", {}),
      el("td", {}),
    ),
  );
  const advice = el("tr.parts", {}, el("td", { colspan: 7 }, el("div.do", {}, cause.advice)));
  return [line, advice, ...parts];
}
