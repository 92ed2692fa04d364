// Every connection with a bar of its stages; one of them in full: its stages, round-trip times, windows and queues over
// time, with what happened to it.

import type { Connection } from "../data/contract";
import { rowsByCode, type Side } from "../data/side";
import { button, el } from "../dom";
import { bytes, count, counted, duration, measured, percent, rate, words } from "../format";
import { legend, shareBar, shareWords, stageShares } from "../plot/bar";
import { series } from "../plot/series";
import { stagesOverTime } from "../plot/stages";
import { passes } from "../state/filter";
import { colourAt, colourOf } from "../theme/palette";
import { grid } from "./grid";
import type { Page, Site } from "./page";
import { processTitle } from "./who";

export const connectionsPage: Page = (site) => {
  const { report } = site.side;
  const all = report.connections;
  const shown = all.filter((connection) => isShown(site, connection));
  const picked = all.find((connection) => String(connection.id) === site.state.conn) ?? shown[0];
  if (all.length === 0) {
    const seen = "No TCP connection was seen in this recording.";
    return [el("section.panel.empty", {}, report.why_unseen ? `${seen} ${report.why_unseen}` : seen)];
  }
  const list = el(
    "section.panel",
    {},
    el(
      "header",
      {},
      el(
        "h2",
        {},
        shown.length === all.length
          ? counted(all.length, "connection")
          : `${count(shown.length)} of ${counted(all.length, "connection")}`,
      ),
      el("span.soft", {}, "worst first; bars are what stopped the next byte"),
    ),
    table(site, shown, picked),
  );
  return [list, ...(picked ? [connectionPanel(site, picked)] : [])];
};

function isShown(site: Site, connection: Connection): boolean {
  const start = site.side.report.host.started_ns;
  const facts = {
    begin: () => (connection.opened_ns ?? start) - start,
    end: () => (connection.closed_ns ?? Infinity) - start,
    has: {
      conn: (_: number, value: string) => String(connection.id) === value,
      pid: (_: number, value: string) => String(connection.process?.pid) === value,
    },
  };
  return passes(site.state.filters, facts, 0);
}

/** Returns the table of connections. */
function table(site: Site, rows: Connection[], picked: Connection | undefined): HTMLElement {
  const total = (name: string) => (it: Connection) => it.totals[name] ?? NaN;
  const reading = (name: string) => (it: Connection) => Number(it.tcp[name] ?? NaN);
  return grid({
    label: "connections",
    rows,
    words: (it) => `${processTitle(it.process)} ${it.local} ${it.remote} ${it.id} ${it.findings.join(" ")} ${it.role}`,
    pick: (it) => site.store.go({ conn: String(it.id), selection: [{ by: "conn", value: String(it.id) }] }),
    isPicked: (it) => it === picked,
    columns: [
      { title: "Connection", key: (it) => it.local, cell: (it) => el("span.clip", {}, `${it.local} → ${it.remote}`) },
      {
        title: "Process",
        key: (it) => processTitle(it.process),
        cell: (it) => el("span.clip.narrow", {}, processTitle(it.process)),
      },
      { title: "Stages", cell: (it) => stageCell(site, it) },
      {
        title: "Lost to findings",
        number: true,
        key: (it) => it.harm_ns,
        cell: (it) => (it.harm_ns > 0 ? duration(it.harm_ns) : "–"),
        doc: "Time that threads were blocked or data was late because of its findings",
      },
      { title: "Duration", number: true, key: (it) => it.lifetime_ns, cell: (it) => duration(it.lifetime_ns) },
      { title: "Sent", number: true, key: total("bytes_sent"), cell: (it) => measured(it.totals["bytes_sent"], bytes) },
      {
        title: "Received",
        number: true,
        key: total("bytes_received"),
        cell: (it) => measured(it.totals["bytes_received"], bytes),
      },
      {
        title: "Retransmits",
        number: true,
        key: total("retransmits"),
        cell: (it) => measured(it.totals["retransmits"], count),
        doc: "Retransmitted segments",
      },
      {
        title: "RTT",
        number: true,
        key: reading("srtt_us"),
        cell: (it) => measured(it.tcp["srtt_us"] as number | null, (us) => duration(us * 1e3)),
        doc: "Smoothed round-trip time, as last read",
      },
      { title: "Findings", cell: (it) => it.findings.map(words).join(", ") || "–" },
    ],
  });
}

function stageCell(site: Site, connection: Connection): HTMLElement | string {
  const shares = stageShares(connection.stages, site.book.stages);
  if (shares.length > 0) {
    return shareBar(shares, shareWords(shares));
  }
  return connection.not_judged ?? (connection.sent_nothing ? "sent nothing" : "not judged");
}

/** Returns the panel of the selected connection. */
function connectionPanel(site: Site, connection: Connection): HTMLElement {
  const shares = stageShares(connection.stages, site.book.stages);
  const id = String(connection.id);
  const range = (): [number, number] => site.store.state.view ?? [0, site.side.report.span_ns];
  const stages = stagesOverTime({
    side: site.side,
    conn: id,
    stages: site.book.stages,
    range,
    live: site.live,
    height: 120,
  });
  const others = el("span.end", {}, ...elsewhere(site, connection));
  return el(
    "section.panel.connection",
    { "aria-label": `Connection ${connection.local} → ${connection.remote}` },
    el(
      "header",
      {},
      el("h2", {}, `${connection.local} → ${connection.remote}`),
      el("span.soft", {}, processTitle(connection.process)),
      others,
    ),
    el("p.soft", {}, settings(connection)),
    shares.length > 0 && el("div.part", {}, shareBar(shares, shareWords(shares), true), legend(shares)),
    receiving(connection),
    stages && el("div.part", {}, el("h3", {}, "Stages over time; ▾ is a loss or a zero window"), stages),
    ...readings(site, id, range),
  );
}

/** Returns buttons that lead to other pages about a connection. */
function elsewhere(site: Site, connection: Connection): Node[] {
  const term = { by: "conn" as const, value: String(connection.id) };
  const peer = site.side.report.connections.find((it) => it.id === connection.peer);
  const out: Node[] = [];
  if (peer) {
    out.push(button("Other end", () => site.store.go({ conn: String(peer.id) })));
  }
  out.push(
    button("Its waits", () =>
      site.store.go({ page: "waits", filters: [...site.state.filters, { out: false, terms: [term] }], selection: [] }),
    ),
  );
  out.push(
    button("Its messages", () =>
      site.store.go({
        page: "messages",
        filters: [...site.state.filters, { out: false, terms: [term] }],
        selection: [],
      }),
    ),
  );
  return out;
}

/** Returns the settings of a connection in words. */
function settings(connection: Connection): string {
  const { tcp } = connection;
  // A connection that was open before the recording is older than the recorded time.
  const verb = connection.opened_ns === null ? "watched for" : "duration";
  const parts = [`${connection.role} side`, `${verb} ${duration(connection.lifetime_ns)}`];
  if (connection.mptcp)
    parts.push(
      `subflow of MPTCP connection ${connection.mptcp.token}, with ${counted(connection.mptcp.subflows - 1, "other")} recorded`,
    );
  if (tcp["congestion"]) parts.push(String(tcp["congestion"]));
  if (typeof tcp["nodelay"] === "boolean") parts.push(`TCP_NODELAY ${tcp["nodelay"] ? "on" : "off"}`);
  if (typeof tcp["min_rtt_us"] === "number") parts.push(`min RTT ${duration(tcp["min_rtt_us"] * 1e3)}`);
  if (typeof tcp["mss_bytes"] === "number") parts.push(`MSS ${bytes(tcp["mss_bytes"])}`);
  if (typeof tcp["sndbuf_bytes"] === "number")
    parts.push(`send buffer ${bytes(tcp["sndbuf_bytes"])}${tcp["sndbuf_locked"] ? ", fixed by the program" : ""}`);
  if (typeof tcp["rcvbuf_bytes"] === "number")
    parts.push(`receive buffer ${bytes(tcp["rcvbuf_bytes"])}${tcp["rcvbuf_locked"] ? ", fixed by the program" : ""}`);
  return parts.join(" · ");
}

function receiving(connection: Connection): HTMLElement | null {
  const { receive } = connection;
  if (!receive) {
    return null;
  }
  const closed = receive.window_closed ? `, zero window ${percent(receive.window_closed.share)}` : "";
  return el(
    "p.part",
    {},
    `Receiving: waited for the peer ${percent(receive.waiting_for_peer.share)} of the time, slow reader ${percent(receive.reader_slow.share)}${closed}.`,
  );
}

function sampleRows(side: Side): Map<string, number[]> {
  const table = side.table("tcp_samples");
  const conns = table.words("conn");
  const out = new Map<string, number[]>();
  for (const [code, rows] of rowsByCode(conns, table.rows)) {
    const times = table.numbers("time_ns");
    out.set(
      conns.words[code - 1] ?? "",
      rows.sort((a, b) => (times[a] ?? 0) - (times[b] ?? 0)),
    );
  }
  return out;
}

/** Returns the plots of readings of a connection. */
function readings(site: Site, id: string, range: () => [number, number]): HTMLElement[] {
  const table = site.side.table("tcp_samples");
  const rows = site.side.once(sampleRows).get(id) ?? [];
  if (rows.length === 0) {
    return [el("p.soft.part", {}, "No readings of this connection: it was shorter than a poll interval.")];
  }
  const column = (name: string) => rows.map((row) => table.numbers(name)[row] ?? NaN);
  const times = column("time_ns");
  const scaled = (name: string, by: number) => column(name).map((value) => value * by);
  const mss = column("mss_bytes");
  const inBytes = (name: string) => column(name).map((segments, at) => segments * (mss[at] ?? NaN));
  const brushed = (from: number, to: number) => site.store.select([{ by: "time", from, to }]);
  const common = { times, range, live: site.live, brushed };
  const plots: [string, HTMLElement][] = [
    [
      "Round-trip time",
      series({
        ...common,
        label: "round-trip time",
        write: duration,
        lines: [
          { label: "smoothed", colour: colourAt(0), values: scaled("srtt_us", 1e3) },
          { label: "min", colour: colourAt(2), values: scaled("min_rtt_us", 1e3), dash: [4, 3] },
        ],
      }),
    ],
    [
      "Congestion window and bytes in flight",
      series({
        ...common,
        label: "congestion window and bytes in flight",
        write: bytes,
        lines: [
          { label: "congestion window", colour: colourOf("congestion_window"), values: inBytes("cwnd"), steps: true },
          { label: "in flight", colour: colourAt(2), values: inBytes("unacked") },
          { label: "lost", colour: colourOf("retransmit_timeout"), values: inBytes("lost") },
        ],
      }),
    ],
    [
      "Receive windows",
      series({
        ...common,
        label: "receive windows",
        write: bytes,
        lines: [
          { label: "peer's", colour: colourOf("receiver_window"), values: column("snd_wnd_bytes"), steps: true },
          { label: "own", colour: colourAt(4), values: column("rcv_wnd_bytes"), steps: true },
        ],
      }),
    ],
    [
      "Queues of the socket",
      series({
        ...common,
        label: "queues",
        write: bytes,
        lines: [
          { label: "written, not acknowledged", colour: colourOf("send_buffer"), values: column("send_queue_bytes") },
          { label: "not sent yet", colour: colourAt(1), values: column("notsent_bytes") },
          { label: "received, not read", colour: colourAt(3), values: column("receive_queue_bytes") },
        ],
      }),
    ],
    [
      "Delivery rate",
      series({
        ...common,
        label: "delivery rate",
        write: rate,
        lines: [{ label: "last measured", colour: colourAt(0), values: column("delivery_rate_bytes_per_s") }],
      }),
    ],
  ];
  const drawn = plots.map(([title, plot]) => el("div", {}, el("h3", {}, title), plot));
  return [el("div.columns.part", {}, ...drawn)];
}
