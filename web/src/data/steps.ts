// What happened to a message, step by step, and the parts of its way: as `whylat report --message` names them.

import type { Messages } from "./messages";
import type { Side } from "./side";

/** A step of a list; messages have one of few. */
export interface StepHead {
  what: string;
  text: string;
  /** Part that ends with this step, and the index of the step with which it begins; `null`: no part ends. */
  ends: { part: string; name: string; from: number } | null;
}

export interface Step {
  atNs: number;
  text: string;
  /** How far from it the true time may be; NaN: the kernel itself took the time. */
  errorNs: number;
}

export interface Part {
  /** Its stable name. */
  part: string;
  name: string;
  from: Step;
  to: Step;
}

/** The steps of a message in the order of time, and its parts in that of its way. */
export function stepsOf(side: Side, messages: Messages, row: number): { steps: Step[]; parts: Part[] } {
  const [table, own] = messages.own(row);
  const list = side.stepLists[table.numbers("step_list")[own] ?? NaN] ?? [];
  const errorNs = table.numbers("on_wire_error_ns")[own] ?? NaN;
  const steps = list.map(({ what, text }, index) => ({
    atNs: table.numbers(`step_${index}_ns`)[own] ?? NaN,
    text,
    errorNs: what === "on_wire" ? errorNs : NaN,
  }));
  const parts: Part[] = [];
  list.forEach(({ ends }, index) => {
    const [from, to] = [steps[ends?.from ?? index], steps[index]];
    if (ends && from && to) parts.push({ part: ends.part, name: ends.name, from, to });
  });
  return { steps, parts };
}
