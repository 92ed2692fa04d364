// One message in full, beside an ordinary one of the same application.

import { type Explaining, explainingSpans } from "../data/explaining";
import { type Messages, type Why } from "../data/messages";
import type { Side } from "../data/side";
import { spansWithin } from "../data/spans";
import { type Step, stepsOf } from "../data/steps";
import { button, prose, el } from "../dom";
import { bytes, counted, duration, percent, words } from "../format";
import { type Life, lifeRows, lifetimePlot } from "../plot/lifetime";
import { asTable } from "../plot/plot";
import { colourOf } from "../theme/palette";
import type { Site } from "./page";

/** Causes of one message in its panel: the largest ones. */
const CAUSES = 6;

/** The panel; `null`: there is no such message in the page. */
export function lifetimePanel(site: Site, messages: Messages, id: string): HTMLElement {
  const close = button("Close", () => site.store.go({ message: null }));
  const row = messages.rowOf(id);
  if (row === null) {
    return el(
      "section.panel.empty",
      {},
      el("header", {}, el("h2", {}, `Message ${id}`), el("span.end", {}, close)),
      "It is not in this page. The page holds only a part of the messages, or the link belongs to another recording.",
    );
  }
  const why = messages.why(row);
  const usual = why ? ordinary(site.side, messages, why, row) : null;
  const life = lifeOf(site.side, messages, row);
  const reference = usual === null ? null : lifeOf(site.side, messages, usual);
  const kept = life.spans.some((span) => span.begin < life.view[1] && span.end > life.view[0]);
  const latency = messages.latency[row] ?? NaN;
  const took = Number.isNaN(latency) ? "" : `: ${duration(latency)}`;
  return el(
    "section.panel.life",
    { "aria-label": `Message ${id}` },
    el(
      "header",
      {},
      el("h2", {}, `Message ${id}${took}`),
      el(
        "span.soft",
        {},
        about(site.side, messages, row, life),
      ),
      el("span.end", {}, close),
    ),
    why ? causes(why) : null,
    !kept &&
      el(
        "p.soft",
        {},
        ...prose(
          "No CPU activity was recorded for this message. Record with `--keep p99,sample=100` to have it for slow messages and some others.",
        ),
      ),
    drawn(life),
    kept && el("p.soft", {}, legend(life, why)),
    reference &&
      usual !== null &&
      el(
        "h3.part",
        {},
        `An ordinary message to compare, ${messages.id(usual)}: ${duration(messages.latency[usual] ?? NaN)}`,
      ),
    reference && drawn(reference),
  );
}

function about(side: Side, messages: Messages, row: number, life: Life): string {
  const which = `${bytes(messages.bytes[row] ?? NaN)} ${messages.sent[row] ? "sent" : "received"}`;
  const who = side.process(messages.word(row, "pid"));
  const when = duration(life.steps[0]?.atNs ?? NaN);
  const isKnown = !Number.isNaN(messages.latency[row] ?? NaN);
  const gaps = isKnown ? "" : "; timestamps are missing or out of order";
  return `${which} by ${who}, ${when} after the start${gaps}`;
}

function legend(life: Life, why: Why | null): string {
  const outlined = new Set([...life.explaining.values()].flat().map((explains) => explains.cause));
  const away = (why?.explained.causes ?? []).filter(({ cause }) => !outlined.has(cause));
  const named = away.map(({ cause }) => life.cause(cause));
  return [
    outlined.size > 0 && "Outlined: the activity that explains the delay.",
    `Faint: other threads${outlined.size > 0 ? " that do not explain it" : ""}.`,
    named.length > 0 && `Causes without CPU activity, so not outlined: ${named.join(", ")}.`,
  ]
    .filter(Boolean)
    .join(" ");
}

function drawn(life: Life): HTMLElement {
  const plot = lifetimePlot(life);
  return el(
    "div",
    {},
    plot.element,
    asTable(["from its begin", "length", "what", "name", "CPU", "explains the message"], () => lifeRows(life)),
  );
}

/** Returns the causes of one slow message. */
function causes(why: Why): HTMLElement {
  const { explained, group } = why;
  const rows = explained.causes.slice(0, CAUSES).map(({ cause, ns }) => {
    const named = group.causes[cause];
    const key = el("span.key");
    key.style.background = colourOf(named?.rule ?? "unknown");
    const share = explained.deviation_ns > 0 ? percent(ns / explained.deviation_ns) : "";
    return el(
      "tr",
      {},
      el("td", {}, key, ` ${named?.what ?? "not known"}`),
      el("td", {}, words(named?.rule ?? "")),
      el("td.number", {}, duration(ns)),
      el("td.number", {}, share),
    );
  });
  const head = `${duration(explained.deviation_ns)} longer than usual, ${percent(explained.covered)} of it explained; ${counted(explained.ahead, "message")} ahead of it.`;
  const left = explained.causes.length - rows.length;
  return el(
    "div",
    {},
    el("p", {}, head),
    rows.length > 0 && el("table.facts", {}, el("tbody", {}, ...rows)),
    left > 0 && el("p.soft", {}, `${left} more`),
  );
}

/** Returns a message of the same application with the usual latency and recorded CPU activity. */
function ordinary(side: Side, messages: Messages, why: Why, row: number): number | null {
  const windows = side.table("activity_windows");
  const [conns, sends, offsets] = [windows.words("conn"), windows.words("is_send"), windows.numbers("offset_end")];
  const kept = new Set<string>();
  for (let at = 0; at < windows.rows; at++) {
    const conn = conns.words[(conns.codes[at] ?? 0) - 1];
    const send = sends.words[(sends.codes[at] ?? 0) - 1];
    kept.add(`${conn}:${send === "true" ? "s" : "r"}${offsets[at]}`);
  }
  const pid = messages.word(row, "pid");
  let [best, least] = [-1, Infinity];
  for (let other = 0; other < messages.rows; other++) {
    const away = Math.abs((messages.latency[other] ?? NaN) - why.group.usual_ns);
    if (
      away < least &&
      messages.sent[other] === messages.sent[row] &&
      messages.word(other, "pid") === pid &&
      kept.has(messages.id(other))
    ) {
      [best, least] = [other, away];
    }
  }
  return best < 0 || best === row ? null : best;
}

/** Returns the steps, the parts and the CPU activity of one message. */
function lifeOf(side: Side, messages: Messages, row: number): Life {
  const [table, own] = messages.own(row);
  const { steps, parts } = stepsOf(side, messages, row);
  const [whole, view] = axes(messages, row, steps);
  const isSent = messages.sent[row] === 1;
  const roles = new Map<string, string>();
  const cpu = (column: string) => table.numbers(column)[own] ?? NaN;
  const kernel = cpu(isSent ? "driver_cpu" : "receive_cpu");
  if (!Number.isNaN(kernel)) roles.set(String(kernel), isSent ? "gave the message to the driver" : "received the message");
  const app = String(cpu("cpu"));
  roles.set(app, roles.has(app) ? `${roles.get(app)}, and ran its thread` : "ran its thread");
  const id = messages.id(row);
  const none: Explaining = new Map();
  return {
    label: `life of message ${id}`,
    steps,
    parts,
    spans: spansWithin(side, ...whole),
    tid: messages.word(row, "tid"),
    whole,
    view,
    roles,
    explaining: side.once(explainingSpans).get(id) ?? none,
    cause: (index) => messages.why(row)?.group.causes[index]?.what ?? "not known",
  };
}

/**
 * All of a message's time, and what of that is shown at first: where the other end takes most of it, only the start of
 * what happens after this host had the message.
 */
function axes(messages: Messages, row: number, steps: Step[]): [[number, number], [number, number]] {
  const first = steps[0]?.atNs ?? 0;
  const [last, before] = [steps[steps.length - 1]?.atNs ?? first, steps[steps.length - 2]?.atNs ?? first];
  const room = (to: number, share: number) => Math.max(500, (to - first) * share);
  const whole: [number, number] = [first - room(last, 0.06), last + room(last, 0.06)];
  const hostEnd = (messages.begin[row] ?? NaN) + (messages.latency[row] ?? NaN);
  const isAway = last > hostEnd && last - before > (last - first) / 2;
  return [whole, isAway ? [first - room(before, 0.06), before + room(before, 0.25)] : whole];
}
