// Names of processes and connections.

import type { Process, Subject } from "../data/contract";
import { counted } from "../format";

export function processTitle(process: Process | null): string {
  if (!process) return "process not known";
  if (process.comm && process.pid !== null) return `${process.comm}[${process.pid}]`;
  return process.comm ?? `process ${process.pid ?? "not known"}`;
}

export function subjectTitle(subject: Subject): string {
  const ends = `${subject.local} → ${subject.remote}`;
  return subject.connections > 1
    ? `${processTitle(subject.process)} · ${counted(subject.connections, "connection")}, such as ${ends}`
    : `${processTitle(subject.process)} · ${ends}`;
}
