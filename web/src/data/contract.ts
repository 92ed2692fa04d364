// The parts of the JSON contracts (docs/*.schema.json) that the viewer shows. Null means "not measured", never zero.

export interface Process {
  pid: number | null;
  comm: string | null;
}

export interface Coverage {
  probe: string;
  state: "on" | "off" | "fallback";
  why?: string;
  remedy?: string;
  which?: string;
}

export interface Loss {
  probe: string;
  produced: number;
  stored: number;
  filtered: number;
  lost: Record<string, number>;
  lost_total: number;
  residual: number;
}

export interface Cost {
  cpu_ns: number;
  wall_ns: number;
  max_rss_bytes: number;
  bpf_cpu_share: number | null;
  bpf_sampled_ns: number;
}

export interface About {
  host: {
    name: string;
    kernel: string;
    cpus: number;
    detail: string;
    whylat: string;
    arguments: string[];
    started_realtime_ns: number;
    started_ns: number;
  };
  span_ns: number;
  closed: "in_order" | "recovered" | "not_closed";
  problems: string[];
  left_out?: { table: string; probe: string; rows: number }[];
  coverage: Coverage[];
  loss: Loss[];
  cost: Cost | null;
}

export interface StageShare {
  share: number;
  ns: number;
  method: string;
  bound: number;
}

export interface Connection {
  id: number;
  local: string;
  remote: string;
  process: Process | null;
  role: string;
  peer: number | null;
  chosen: string;
  opened_ns: number | null;
  closed_ns: number | null;
  lifetime_ns: number;
  sent_nothing: boolean;
  not_judged: string | null;
  stages: Record<string, StageShare>;
  receive: {
    reader_slow: StageShare;
    window_closed: StageShare | null;
    waiting_for_peer: StageShare;
  } | null;
  totals: Record<string, number | null>;
  tcp: Record<string, number | string | boolean | null>;
  mptcp?: { token: string; subflows: number };
  harm_ns: number;
  findings: string[];
}

export interface Fact {
  value: number | boolean;
  unit: string;
  label: string;
}

export interface Subject {
  process: Process | null;
  local: string;
  remote: string;
  connections: number;
  ids: number[];
  lifetime_ns: number;
  /** Absent: it is about connections. */
  requests?: { role: "server" | "client"; address: string; requests: number };
}

export type Severity = "info" | "warning" | "critical";

export interface Finding {
  rule: string;
  severity: Severity;
  headline: string;
  is_answer?: boolean;
  subject: Subject;
  direction: "sending" | "receiving";
  from_ns: number;
  until_ns: number;
  share: number;
  harm_ns: number;
  involved?: string[];
  evidence: Record<string, Fact>;
  ruled_out: { cause: string; because: string }[];
  could_not_see: string[];
  advice: string[];
  estimated_win: { times_faster: number; at_least: boolean; at_most?: boolean; assumes: string } | null;
  confidence: { level: string; because: string };
}

export interface UndecidedProblem {
  candidates: string[];
  headline: string;
  subject: Subject;
  direction: "sending" | "receiving";
  share: number;
  possible_harm_ns: number;
  evidence: Record<string, Fact>;
  why: string;
  would_help: string[];
}

export interface SlowMessages {
  application: string | null;
  direction: string;
  severity: Severity;
  harm_ns: number;
  share: number;
  tail: string;
  messages: number;
  judged: number;
  from_ns: number;
  until_ns: number;
  usual_ns: number;
  covered: number;
  causes: {
    rule: string;
    what: string;
    role: string;
    messages: number;
    first: number;
    deviation_ns: number;
    examples: string[];
    advice: string;
  }[];
}

/** Time of each part of a request, ns, or its share. */
export type Parts = Record<string, number>;

export interface RequestService {
  name: string;
  role: "server" | "client";
  address: string;
  requests: number;
  duration_ns: { p50: number; p90: number; p99: number; max: number };
  parts: { all: Parts; slowest: Parts };
  unknown: number;
  queue_most: number;
}

export interface RequestStep {
  after_ns: number;
  ns: number;
  part: string;
  process?: Process;
  tid?: number;
  connection?: string;
  behind?: number;
  woken_by?: { process: Process; tid: number };
  stack?: string;
}

export interface RequestReport extends About {
  services: RequestService[];
  not_requests: { address: string; why: string; name: string; connections: number }[];
  broken: number;
  unanswered: number;
}

/** A request that the page holds: of a small recording all, else the slowest of each service and a sample. */
export interface HeldRequest {
  id: string;
  /** Position in the report's services. */
  service: number;
  /** From the recording's start. */
  begin_ns: number;
  duration_ns: number;
  parts: Parts;
  path: RequestStep[];
  path_is_cut: boolean;
  path_is_left_out: boolean;
  request: [number, number];
  response: [number, number];
  calls: number;
  pid: number;
  tid: number;
}

export interface RequestPage {
  /** Names of all parts: in JSON, and in text. */
  part_names: [string, string][];
  /** Slowest first. */
  held: HeldRequest[];
  /** Service, largest part, column of time, row of duration (from 2^(row/4) ns on), requests. */
  heat: { bin_ns: number; cells: [number, number, number, number, number][] };
}

export interface Report extends About {
  why_unseen?: string;
  connections: Connection[];
  connections_not_judged?: number;
  connections_not_listed?: number;
  findings: Finding[];
  undecided: UndecidedProblem[];
  slow_messages: SlowMessages[] | null;
}

export interface Identity {
  name: string;
  kind: string | null;
  conn: number | null;
  object: number | null;
  fd: number | null;
  process: Process | null;
  tid: number | null;
  waker: string | null;
  lock?: string;
  stack?: { frames: Frame[]; caller: string };
}

export interface Frame {
  function: string | null;
  object: string | null;
  offset: number | null;
  source: string | null;
  line: number | null;
  inlined: boolean;
}

export interface WaitPart extends Identity {
  count: number;
  blocked_ns: number;
  exact: boolean;
}

export interface Population {
  count: number;
  p50_ns: number;
  blocked_ns: number;
}

export interface FewSlow {
  others_max_ns: number;
  durations_ns: number[];
}

export interface WaitGroup extends Identity {
  count: number;
  blocked_ns: number;
  share: number;
  runq_ns: number | null;
  first_ns: number;
  last_ns: number;
  durations: { min_ns: number; p50_ns: number; p90_ns: number; p99_ns: number; max_ns: number } | null;
  populations: { boundary_ns: number; fast: Population; slow: Population } | null;
  few_slow?: FewSlow;
  histogram: { from_ns: number; to_ns: number; count: number }[];
  threads: WaitPart[];
  wakers: WaitPart[];
  stacks: WaitPart[];
  kernel_stacks: WaitPart[];
}

export interface WaitReport extends About {
  total: { groups: number; count: number; blocked_ns: number; runq_ns: number | null };
  groups: WaitGroup[];
}

export interface Box5 {
  least: number;
  quarter: number;
  median: number;
  three_quarters: number;
  most: number;
}

export interface Cause {
  rule: string;
  what: string;
  category: string | null;
  role: string;
  messages: number;
  first: number;
  deviation_ns: Box5;
  sum_ns: number;
  order: string;
  parts: { name: string; anomaly: string; messages: number; deviation_ns: Box5 }[];
  examples: string[];
  advice: string;
}

export interface ExplainedMessage {
  id: string;
  since_start_ns: number;
  latency_ns: number;
  deviation_ns: number;
  covered: number;
  ahead: number;
  causes: { cause: number; ns: number }[];
}

export interface TailGroup {
  application: string | null;
  direction: "received" | "sent";
  messages: number;
  usual_ns: number;
  deviation_ns: number | null;
  longer: number;
  covered: { least: number; median: number } | null;
  tail: { messages: number; kept: number; from_ns: number; until_ns: number };
  body: { messages: number; kept: number; from_ns: number; until_ns: number };
  causes: Cause[];
  queue: { usual: number; median: number; most: number; deeper: number };
  queueing: { queued: string; messages: number; usual_ahead: number; ahead: Box5; deviation_ns: Box5 }[];
  cores: { cpu: number; ns: number; usual_ns: number; contexts: { name: string; ns: number; usual_ns: number }[] }[];
  explained: ExplainedMessage[];
}

export interface TailReport {
  tail: string;
  body: string;
  groups: TailGroup[];
}
