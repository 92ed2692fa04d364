// Why is it slow? Warnings, worst first, each with its evidence; slow messages; undecided problems; information, closed;
// coverage, loss and cost of the recording.

import type { Fact, Finding, Severity, SlowMessages, Subject, UndecidedProblem } from "../data/contract";
import { requestsOf } from "../data/requests";
import { button, el, prose } from "../dom";
import { bytes, count, counted, duration, percent, plural, rate, times, words } from "../format";
import { legend, shareBar, shareWords, stageShares } from "../plot/bar";
import { stagesOverTime } from "../plot/stages";
import { type Term, passes } from "../state/filter";
import { recordingPanel } from "./recording";
import type { Page, Site } from "./page";
import { subjectService, subjectTitle } from "./who";

/** Panels of one kind that are listed at once. */
const LISTED = 20;

export const answerPage: Page = (site) => {
  const { report } = site.side;
  const shown = report.findings.filter((finding) => isShown(site, finding));
  const hidden = report.findings.length - shown.length;
  const slow = report.slow_messages ?? [];
  const isInfo = (it: { severity: Severity }) => it.severity === "info";
  const warnings = shown.filter((finding) => !isInfo(finding));
  const info = shown.filter(isInfo);
  // The first panel is the one that the title speaks of.
  const answering = info.filter((it) => it.is_answer);
  const others = info.filter((it) => !it.is_answer);
  return [
    el("header.lead", {}, el("h1", {}, site.side.answer), el("p.soft", {}, about(site))),
    ...answering.map((finding) => findingPanel(site, finding)),
    ...listed(warnings, (finding) => findingPanel(site, finding)),
    ...slow.filter((it) => !isInfo(it)).map((it) => slowPanel(site, it)),
    ...listed(report.undecided, (it) => undecidedPanel(site, it)),
    ...listed(others, (finding) => findingPanel(site, finding)),
    ...slow.filter(isInfo).map((it) => slowPanel(site, it)),
    ...(hidden > 0 ? [el("p.soft", {}, `${counted(hidden, "finding")} left out by the selection.`)] : []),
    recordingPanel(site.side),
  ];
};

/** Returns the panels of the first entries, and one that opens the others. */
function listed<T>(entries: T[], panel: (entry: T) => HTMLElement): HTMLElement[] {
  const first = entries.slice(0, LISTED).map(panel);
  const rest = entries.slice(LISTED);
  if (rest.length === 0) {
    return first;
  }
  const more = el("details", {}, el("summary.soft", {}, `${count(rest.length)} more`));
  more.addEventListener("toggle", () => more.append(...rest.splice(0).map(panel)));
  return [...first, more];
}

function about(site: Site): string {
  const { host, span_ns } = site.side.report;
  const began = new Date(host.started_realtime_ns / 1e6).toISOString().slice(0, 19).replace("T", " ");
  return `${duration(span_ns)} recorded on ${host.name} at ${began} UTC, detail ${host.detail}`;
}

function isShown(site: Site, finding: Finding): boolean {
  const start = site.side.report.host.started_ns;
  const facts = {
    begin: () => finding.from_ns - start,
    end: () => finding.until_ns - start,
    has: {
      conn: (_: number, value: string) => finding.subject.ids.some((id) => String(id) === value),
      pid: (_: number, value: string) => String(finding.subject.process?.pid) === value,
    },
  };
  return passes(site.state.filters, facts, 0);
}

function severityTag(severity: Severity | "undecided"): HTMLElement {
  const style = severity === "undecided" ? "warning" : severity;
  return el("span.severity", { class: `severity ${style}` }, severity);
}

/** Returns the panel of a finding, open if the title speaks of it. */
function findingPanel(site: Site, finding: Finding): HTMLElement {
  const open = finding.is_answer === true;
  const isInTitle = open && site.side.answer.endsWith(finding.headline);
  const head = el(
    "summary",
    {},
    severityTag(finding.severity),
    el("span.headline", {}, isInTitle ? subjectTitle(finding.subject) : finding.headline),
    el("span.soft", {}, words(finding.rule)),
  );
  const body = el("div.body");
  const details = el("details.panel.finding", { open }, head, body);
  const draw = () => {
    if (body.childElementCount === 0) {
      body.append(advice(site, finding), charts(site, finding));
    }
  };
  if (open) {
    draw();
  }
  details.addEventListener("toggle", draw);
  return details;
}

/** Returns the fix of a finding, its evidence, and those that take part. */
function advice(site: Site, finding: Finding): HTMLElement {
  const { estimated_win: win, confidence } = finding;
  const gain = win
    ? `${bound(win)} ${times(win.times_faster)} faster${win.at_least ? " (a lower bound)" : ""}, if ${win.assumes}.`
    : null;
  return el(
    "div",
    {},
    el("h3", {}, "Fix"),
    el("div.do", {}, list(finding.advice, true), gain && el("p.soft", {}, gain)),
    el("h3", {}, "Evidence"),
    facts(finding.evidence),
    ...involved(finding),
    el("p.soft.note", {}, `Confidence ${confidence.level}: ${confidence.because}.`),
    el("p", {}, requestsLink(site, finding.subject) ?? connectionLink(site, finding.subject)),
  );
}

/** Says whether a gain is a bound. */
function bound(win: { at_least: boolean; at_most?: boolean }): string {
  return win.at_least ? "At least" : win.at_most ? "At most" : "About";
}

/** The threads, functions and connections that take part. */
function involved(finding: Finding): HTMLElement[] {
  const entries = list(finding.involved ?? []);
  return entries ? [el("h3", {}, "Involved"), entries] : [];
}

/** Leads to the requests of a finding; null: it is about connections, or the page has no requests. */
function requestsLink(site: Site, subject: Subject): HTMLElement | null {
  const service = subjectService(subject);
  if (service === null || !site.side.once(requestsOf)) {
    return null;
  }
  const term: Term = { by: "service", value: service };
  const open = () => site.store.go({ page: "requests", filters: [{ out: false, terms: [term] }], selection: [] });
  return button(subjectTitle(subject), open, { class: "link" });
}

function connectionLink(site: Site, subject: Subject): HTMLElement {
  const id = subject.ids[0];
  const open = () => site.store.go({ page: "connections", conn: id === undefined ? null : String(id) });
  return button(subjectTitle(subject), open, { class: "link" });
}

/** Returns the stages of the worst connection of a finding, and over time. */
function charts(site: Site, finding: Finding): HTMLElement {
  const { report } = site.side;
  const id = finding.subject.ids[0];
  const connection = report.connections.find((connection) => connection.id === id);
  const out = el("div.drawn");
  if (connection && Object.keys(connection.stages).length > 0) {
    const shares = stageShares(connection.stages, site.book.stages);
    const title = finding.subject.connections > 1 ? "Stages of the worst of them" : "Stages";
    out.append(el("div", {}, el("h3", {}, title), shareBar(shares, shareWords(shares), true), legend(shares)));
  }
  const start = report.host.started_ns;
  const plot = stagesOverTime({
    side: site.side,
    conn: String(id),
    stages: site.book.stages,
    range: () => [0, report.span_ns],
    ...(finding.severity === "info" ? {} : { marked: [finding.from_ns - start, finding.until_ns - start] }),
  });
  if (plot) {
    const title =
      finding.severity === "info" ? "Over the recording" : "Over the recording; underlined: the time of the harm";
    out.append(el("div", {}, el("h3", {}, title), plot));
  }
  if (finding.ruled_out.length > 0) {
    const ruledOut = finding.ruled_out.map((it) => `${it.cause}: ${it.because}`);
    out.append(el("div", {}, el("h3", {}, "Ruled out"), list(ruledOut)));
  }
  if (finding.could_not_see.length > 0) {
    out.append(el("div", {}, el("h3", {}, "Not seen"), list(finding.could_not_see)));
  }
  return out;
}

function list(entries: string[], numbered = false): HTMLElement | null {
  if (entries.length === 0) {
    return null;
  }
  if (entries.length === 1) {
    return el("p", {}, ...prose(entries[0] ?? ""));
  }
  return el(numbered ? "ol" : "ul", {}, ...entries.map((entry) => el("li", {}, ...prose(entry))));
}

function facts(evidence: Record<string, Fact>): HTMLElement {
  const shown = Object.values(evidence).filter((fact) => fact.unit !== "id");
  const rows = shown.map((fact) => {
    const label = plural(fact.label, fact.value === 1 ? 1 : 2);
    return el("tr", {}, el("td.number", {}, factValue(fact)), el("td", {}, label));
  });
  return el("table.facts", {}, el("tbody", {}, ...rows));
}

function factValue(fact: Fact): string {
  const { value, unit } = fact;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (unit === "ns") return duration(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "share") return percent(value);
  if (unit === "bytes_per_s") return rate(value);
  return Number.isInteger(value) && unit === "count" ? count(value) : value.toFixed(1);
}

/** Returns the panel of a problem with an unknown cause. */
function undecidedPanel(site: Site, undecided: UndecidedProblem): HTMLElement {
  const candidates = undecided.candidates.map(words);
  return el(
    "details.panel.finding",
    {},
    el(
      "summary",
      {},
      severityTag("undecided"),
      el("span.headline", {}, undecided.headline),
      el("span.soft", {}, candidates.length > 2 ? `one of ${candidates.length} rules` : candidates.join(" or ")),
    ),
    el(
      "div.body",
      {},
      el("div", {}, el("h3", {}, "Evidence"), facts(undecided.evidence)),
      el(
        "div",
        {},
        el("h3", {}, "Why the cause is undecided"),
        el("p", {}, undecided.why),
        candidates.length > 2 && el("p.soft", {}, `It may be: ${candidates.join(", ")}.`),
        el("h3", {}, "To find out"),
        list(undecided.would_help, true),
        el("p", {}, requestsLink(site, undecided.subject) ?? connectionLink(site, undecided.subject)),
      ),
    ),
  );
}

/** Returns the panel of the slow messages of a program, with their first causes. */
function slowPanel(site: Site, slow: SlowMessages): HTMLElement {
  const who = slow.application ?? "an unknown process";
  const causes = slow.causes.map((cause) =>
    el(
      "tr",
      {},
      el("td", {}, cause.what, el("div.soft", {}, `${words(cause.rule)}, ${cause.role === "receive" ? "the receiving CPU" : "the application's CPU"}`)),
      el("td.number", {}, count(cause.first)),
      el("td.number", {}, duration(cause.deviation_ns)),
      el("td", {}, ...prose(cause.advice)),
    ),
  );
  const heads = ["Cause", "First cause of", "Longer (p50)", "Fix"];
  const open = () => site.store.go({ page: "messages" });
  const title = `Slow messages ${slow.direction} by ${who}`;
  const link = el("span.end", {}, button("Show the messages", open));
  const isInfo = slow.severity === "info";
  return el(
    isInfo ? "details.panel.finding" : "section.panel",
    {},
    isInfo
      ? el("summary", {}, severityTag(slow.severity), el("span.headline", {}, title))
      : el("header", {}, severityTag(slow.severity), el("h2", {}, title), link),
    el(
      "p",
      {},
      `The slowest ${counted(slow.messages, "message")} (${slow.tail}) took ${duration(slow.from_ns)} to ` +
        `${duration(slow.until_ns)}; ${duration(slow.usual_ns)} is usual. Total delay: ${duration(slow.harm_ns)}, ` +
        `${percent(slow.share)} of the time of all messages.`,
    ),
    el(
      "table",
      {},
      el(
        "thead",
        {},
        el("tr", {}, ...heads.map((name, at) => el(at === 1 || at === 2 ? "th.number" : "th", { scope: "col" }, name))),
      ),
      el("tbody", {}, ...causes),
    ),
  );
}
