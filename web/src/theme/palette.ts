// Colours of data: one a name, the same everywhere. Hues are those of Okabe and Ito ("Color Universal Design", 2008),
// which any kind of colour vision distinguishes; names that belong together share a hue. Greys stand for "nothing
// wrong here".

const ORANGE = "#e69f00";
const SKY = "#56b4e9";
const GREEN = "#009e73";
const GOLD = "#d9c32b";
const RED = "#d55e00";
const PINK = "#cc79a7";
const VIOLET = "#7d6bc4";
const TEAL = "#66b8ae";

/** A colour that differs with the ground. */
interface Pair {
  light: string;
  dark: string;
}

/** As a line it would be too dark on a dark ground. */
const BLUE: Pair = { light: "#0072b2", dark: "#3a94d4" };
const QUIET: Pair = { light: "#d3d7dc", dark: "#3d444e" };
const MUTE: Pair = { light: "#a3abb5", dark: "#6b7480" };

const COLOURS: Record<string, string | Pair> = {
  // stages: what stops the next byte
  retransmit_timeout: RED,
  tail_loss: "#e8854a",
  fast_retransmit: "#f0ad85",
  receiver_window: PINK,
  congestion_window: BLUE,
  pacing: SKY,
  local_queue: VIOLET,
  cork: "#a8860b",
  nagle: GOLD,
  delayed_ack: ORANGE,
  send_buffer: GREEN,
  in_flight: { light: "#b9dcd7", dark: "#2f5f5a" },
  sender_app: QUIET,
  unknown: MUTE,
  // what a thread waits for
  connection: BLUE,
  listener: SKY,
  datagram: "#8fcdf0",
  unix: TEAL,
  socket: TEAL,
  epoll: GREEN,
  poll: GREEN,
  select: GREEN,
  futex: RED,
  pipe: PINK,
  file: VIOLET,
  event: GOLD,
  sleep: QUIET,
  child: MUTE,
  signal: MUTE,
  io_uring: ORANGE,
  other: MUTE,
  // what a CPU did
  task: SKY,
  idle: QUIET,
  irq: RED,
  softirq: ORANGE,
  syscall: GREEN,
  function: BLUE,
  migration: VIOLET,
  untraced: MUTE,
  decode_error: MUTE,
  // why a message was slow
  head_of_line_blocking: BLUE,
  cpu_contention: RED,
  softirq_delay: ORANGE,
  receive_interference: TEAL,
  idle_wakeup: GREEN,
  probe_overhead: GOLD,
  blocked_in_call: PINK,
  slow_function: SKY,
  unknown_function: MUTE,
  // a fault of memory is a wait and a cause
  page_fault: "#a8860b",
  // parts of a message's way
  arriving: SKY,
  tcp: GREEN,
  udp: GREEN,
  wakeup: VIOLET,
  run_queue: RED,
  program: GOLD,
  copy: PINK,
  call: GOLD,
  held: ORANGE,
  output: GREEN,
  qdisc: VIOLET,
  nic: TEAL,
  network: BLUE,
  // parts of a request; others are stages, or parts of a message's way
  connect: GOLD,
  dns: "#a8860b",
  unread: "#f0c674",
  queued: "#a6611a",
  cpu: GREEN,
  preempted: "#e8854a",
  cpu_quota: "#c51b7d",
  lock: PINK,
  disk: VIOLET,
  memory: "#a99bdc",
  timer: { light: "#8a94a0", dark: "#8a94a0" },
  process: TEAL,
  upstream: SKY,
  remote: "#8fcdf0",
};

/** Of things that have no colour by name, in order. */
const SERIES = [BLUE, ORANGE, GREEN, PINK, SKY, RED, VIOLET, GOLD];

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function shade(colour: string | Pair): string {
  return typeof colour === "string" ? colour : isDark() ? colour.dark : colour.light;
}

/** Colour of a stage, a kind of wait or activity, a cause or a part. */
export function colourOf(name: string): string {
  return shade(COLOURS[name] ?? MUTE);
}

/** Returns black or white, the one with more contrast to a colour. */
export function inkOn(colour: string): string {
  const linear = (part: number) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => linear(parseInt(colour.slice(at, at + 2), 16) / 255));
  // Relative luminance, and where the contrasts to both inks are alike (WCAG 2.1).
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.194 ? "#14181d" : "#ffffff";
}

/** Returns the colour of the nth series; from the ninth on it is grey. */
export function colourAt(index: number): string {
  return shade(SERIES[index] ?? MUTE);
}

/** Colours of axes, text and ground, from the style sheet. */
export function ink(name: "ink" | "soft" | "line" | "ground" | "panel" | "accent" | "mark"): string {
  const written = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  // light-dark(A, B): a property that is not of an element's own is not resolved
  const [light, dark] = written.match(/#[0-9a-f]+/gi) ?? [];
  return (isDark() ? dark : light) ?? light ?? written.trim();
}
