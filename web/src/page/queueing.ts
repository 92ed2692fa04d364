// The queues of slow messages, and the activity of their CPUs.

import type { TailGroup } from "../data/contract";
import { el } from "../dom";
import { count, duration, words } from "../format";
import { makeBoxDrawer } from "../plot/box";
import { colourAt, colourOf } from "../theme/palette";

const QUEUED: Record<string, string> = {
  application_receive: "its thread, in calls that receive",
  application_request: "its thread, at what came in before",
  application_send: "its thread, in calls that send",
  kernel_receive: "the core that receives",
  kernel_send: "the core of the driver",
};

/** Returns how many messages were ahead of slow ones. */
export function queueing(group: TailGroup): HTMLElement {
  const { queue } = group;
  const summary = `Messages ahead of a slow message: p50 ${queue.median}, max ${count(queue.most)}; usual ${queue.usual.toFixed(1)}.`;
  if (group.queueing.length === 0) {
    return el(
      "div",
      {},
      el("h3", {}, "Queueing"),
      el("p", {}, summary),
      el("p.soft", {}, "No slow message waited behind more messages than usual."),
    );
  }
  const box = makeBoxDrawer(group.queueing.map((it) => it.deviation_ns));
  const rows = group.queueing.map((it) =>
    el(
      "tr",
      {},
      el("td", {}, QUEUED[it.queued] ?? words(it.queued)),
      el("td.number", {}, count(it.messages)),
      el("td.number", {}, `+${it.ahead.median}`),
      el("td", {}, box(it.deviation_ns, colourOf("head_of_line_blocking"))),
      el("td.number", {}, duration(it.deviation_ns.median)),
    ),
  );
  const heads: [string, boolean][] = [
    ["Queue", false],
    ["Messages", true],
    ["Ahead", true],
    ["Delay", false],
    ["p50", true],
  ];
  const head = heads.map(([name, number]) => el(number ? "th.number" : "th", { scope: "col" }, name));
  return el(
    "div",
    {},
    el("h3", {}, "Queueing"),
    el("p", {}, summary),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)),
  );
}

/** Returns the activity of CPUs during slow and ordinary messages; `null`: none is known. */
export function cores(group: TailGroup): HTMLElement | null {
  const names = [...new Set(group.cores.flatMap((core) => core.contexts.map((context) => context.name)))];
  if (names.length === 0) {
    return null;
  }
  const colour = (name: string) =>
    name === "idle" ? colourOf("idle") : name === "interrupts" ? colourOf("irq") : colourAt(others.indexOf(name));
  // The sixth colour is that of interrupts.
  const others = names.filter((name) => name !== "idle" && name !== "interrupts");
  others.splice(5, 0, "interrupts");
  const most = Math.max(...group.cores.flatMap((core) => [core.ns, core.usual_ns]), 1);
  const bar = (
    core: TailGroup["cores"][number],
    of: (context: TailGroup["cores"][number]["contexts"][number]) => number,
  ) => {
    const summary = core.contexts
      .filter((it) => of(it) > 0)
      .map((it) => `${it.name} ${duration(of(it))}`)
      .join(", ");
    const out = el("div.bar", { role: "img", "aria-label": summary, title: summary });
    for (const context of core.contexts) {
      const piece = el("i", { title: `${context.name} ${duration(of(context))}` });
      piece.style.width = `${(of(context) / most) * 100}%`;
      piece.style.background = colour(context.name);
      out.append(piece);
    }
    return out;
  };
  const rows = group.cores.flatMap((core) => [
    el(
      "tr",
      {},
      el("td", {}, `CPU ${core.cpu}`),
      el("td", {}, "slow"),
      el(
        "td.grow",
        {},
        bar(core, (it) => it.ns),
      ),
      el("td.number", {}, duration(core.ns)),
    ),
    el(
      "tr",
      {},
      el("td", {}),
      el("td.soft", {}, "usual"),
      el(
        "td.grow",
        {},
        bar(core, (it) => it.usual_ns),
      ),
      el("td.number", {}, duration(core.usual_ns)),
    ),
  ]);
  const keys = names.map((name) => {
    const key = el("span.key");
    key.style.background = colour(name);
    return el("li", {}, key, name);
  });
  return el(
    "div",
    {},
    el("h3", {}, "CPU activity during these messages"),
    el("table.cores", {}, el("tbody", {}, ...rows)),
    el("ul.legend", {}, ...keys),
  );
}
