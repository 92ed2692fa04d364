// Spans → the nest that they make: a node for what is met within the same things, with the time of all that is alike.

import type { Span } from "./spans";

export interface Nest {
  title: string;
  kind: string;
  ns: number;
  children: Map<string, Nest>;
}

/** The nest of spans, and the node of each. */
export interface Nested {
  root: Nest;
  nodes: Map<Span, Nest>;
}

function node(title: string, kind: string): Nest {
  return { title, kind, ns: 0, children: new Map() };
}

/** What a span is called among others within the same. */
export function spanTitle(span: Span): string {
  return span.name ?? span.kind;
}

/**
 * Nests spans, which come in the order of their begin, outer ones first. `time`: what of a span counts, ns. `lane`: what
 * its CPU is called; CPUs of one name are one.
 */
export function nested(spans: Span[], time: (span: Span) => number, lane: (cpu: string | null) => string): Nested {
  const root = node("", "");
  const nodes = new Map<Span, Nest>();
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
    nodes.set(span, own);
  }
  return { root, nodes };
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

/**
 * Nodes of a nest that took longer than those of another, where what lies within them explains that: at least this share of
 * it, as `whylat report --tail` decides which places are causes.
 */
export function explained(nest: Nest, usual: Nest | undefined, share: number, resolutionNs: number): Set<Nest> {
  const out = new Set<Nest>();
  walk(nest, usual);
  return out;

  function walk(own: Nest, other: Nest | undefined): number {
    const longer = own.ns - (other?.ns ?? 0);
    let within = 0;
    for (const [key, inner] of own.children) {
      within += Math.max(0, walk(inner, other?.children.get(key)));
    }
    if (longer >= resolutionNs && within >= share * longer) {
      out.add(own);
    }
    return longer;
  }
}
