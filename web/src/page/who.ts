// Names of processes and connections.

import type { Process, Subject } from "../data/contract";
import { serviceTitle } from "../data/requests";
import { counted } from "../format";

export function processTitle(process: Process | null): string {
  if (!process) return "process not known";
  if (process.comm && process.pid !== null) return `${process.comm}[${process.pid}]`;
  return process.comm ?? `process ${process.pid ?? "not known"}`;
}

/** The service that a finding on requests is about, as the page of requests names it; null: it is about connections. */
export function subjectService(subject: Subject): string | null {
  const { requests, process } = subject;
  return requests ? serviceTitle({ ...requests, name: process?.comm ?? "?" }) : null;
}

export function subjectTitle(subject: Subject): string {
  if (subject.requests) {
    const { role, address, requests } = subject.requests;
    const place = `${role === "server" ? "at" : "→"} ${address}`;
    return `${processTitle(subject.process)} ${place} · ${counted(requests, "request")}`;
  }
  const ends = `${subject.local} → ${subject.remote}`;
  return subject.connections > 1
    ? `${processTitle(subject.process)} · ${counted(subject.connections, "connection")}, such as ${ends}`
    : `${processTitle(subject.process)} · ${ends}`;
}
