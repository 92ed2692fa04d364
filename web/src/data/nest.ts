// Spans → the nest that they make: one node for all spans of one name in the same parents, with their total time.

import type { Span } from "./spans";

export interface Nest {
  title: string;
  kind: string;
  ns: number;
  children: Map<string, Nest>;
}

function node(title: string, kind: string): Nest {
  return { title, kind, ns: 0, children: new Map() };
}

/** Returns the name of a span within its parent. */
function spanTitle(span: Span): string {
  return span.name ?? span.kind;
}

/**
 * Nests spans, which come in the order of their start, outer ones first. `time`: what of a span counts, ns. `lane`: what
 * its CPU is called; CPUs of one name are one.
 */
export function nested(spans: Span[], time: (span: Span) => number, lane: (cpu: string | null) => string): Nest {
  const root = node("", "");
  const open = new Map<string | null, Nest[]>();
  for (const span of spans) {
    const name = lane(span.cpu);
    const stack = open.get(span.cpu) ?? [child(root, name, "cpu")];
    open.set(span.cpu, stack);
    stack.length = Math.min(stack.length, span.depth + 1);
    const own = child(stack[stack.length - 1] ?? root, spanTitle(span), span.kind);
    const ns = time(span);
    own.ns += ns;
    if (span.depth === 0) {
      const top = stack[0];
      if (top) top.ns += ns;
      root.ns += ns;
    }
    stack.push(own);
  }
  return root;
}

function child(around: Nest, title: string, kind: string): Nest {
  const key = `${kind} ${title}`;
  let found = around.children.get(key);
  if (!found) {
    found = node(title, kind);
    around.children.set(key, found);
  }
  return found;
}
