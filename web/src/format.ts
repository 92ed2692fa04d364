// Numbers as people read them, as crates/diagnose/src/units.rs writes them: three significant digits and a unit.

function scaled(value: number, unit: string): string {
  const size = Math.abs(value);
  const digits = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${unit}`;
}

export function duration(ns: number): string {
  const size = Math.abs(ns);
  if (Number.isNaN(ns)) return "unknown";
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return scaled(ns / 1e3, "µs");
  if (size < 1e9) return scaled(ns / 1e6, "ms");
  if (size < 120e9) return scaled(ns / 1e9, "s");
  const seconds = Math.floor(size / 1e9);
  const sign = ns < 0 ? "-" : "";
  if (seconds < 7200) return `${sign}${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${sign}${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

export function bytes(count: number): string {
  if (Number.isNaN(count)) return "unknown";
  if (count < 1e3) return `${Math.round(count)} B`;
  if (count < 1e6) return scaled(count / 1e3, "kB");
  if (count < 1e9) return scaled(count / 1e6, "MB");
  if (count < 1e12) return scaled(count / 1e9, "GB");
  return scaled(count / 1e12, "TB");
}

export function rate(bytesPerS: number): string {
  const bits = bytesPerS * 8;
  if (bits < 1e3) return scaled(bits, "bit/s");
  if (bits < 1e6) return scaled(bits / 1e3, "kbit/s");
  if (bits < 1e9) return scaled(bits / 1e6, "Mbit/s");
  return scaled(bits / 1e9, "Gbit/s");
}

export function percent(share: number): string {
  const value = share * 100;
  return value > 0 && value < 0.05 ? "<0.1 %" : `${value.toFixed(1)} %`;
}

export function count(number: number): string {
  return Math.round(number)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

export function times(ratio: number): string {
  return ratio < 9.95 ? `${ratio.toFixed(1)}×` : `${count(ratio)}×`;
}

/** Words that follow a number: `stall(s)` becomes `stall` after one, else `stalls`. */
export function plural(words: string, number: number): string {
  return words.replaceAll("(s)", number === 1 ? "" : "s");
}

export function counted(number: number, noun: string): string {
  return plural(`${count(number)} ${noun}(s)`, number);
}

/** A value of a contract with its unit; `null` is written as unknown. */
export function measured(value: number | null | undefined, write: (value: number) => string): string {
  return value === null || value === undefined ? "unknown" : write(value);
}

/** A stable name of the project as words: `delayed_ack` → `delayed ACK`. */
export function words(name: string): string {
  return name
    .replaceAll("_", " ")
    .replace(/\back\b/, "ACK")
    .replace(/\btcp\b/, "TCP");
}
