// Which spans explain why a message took longer than usual: what the diagnosis of slow messages found.

import type { Side } from "./side";
import { wordAt } from "./table";

/** How a span explains a message. */
export interface Explains {
  /** Index in the causes of the message's application. */
  cause: number;
  /** How it differs from what ordinary messages meet: a stable name. */
  anomaly: string;
}

/** The spans that explain a message, by their rows. */
export type Explaining = Map<number, Explains[]>;

/** Of each message that is explained, by its id. */
export function explainingSpans(side: Side): Map<string, Explaining> {
  const table = side.table("cause_spans");
  const [messages, anomalies] = [table.words("message"), table.words("anomaly")];
  const [spans, causes] = [table.numbers("span"), table.numbers("cause")];
  const out = new Map<string, Explaining>();
  for (let row = 0; row < table.rows; row++) {
    const id = wordAt(messages, row) ?? "";
    const own: Explaining = out.get(id) ?? new Map();
    const span = spans[row] ?? NaN;
    const explains = { cause: causes[row] ?? NaN, anomaly: wordAt(anomalies, row) ?? "" };
    own.set(span, [...(own.get(span) ?? []), explains]);
    out.set(id, own);
  }
  return out;
}
