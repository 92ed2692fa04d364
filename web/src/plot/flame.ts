// Call stacks as a flame graph: a box a function, as wide as the time of all stacks through it, callers above what they
// call. Elements, so that they are read and reached without a table.

import type { Frame, WaitPart } from "../data/contract";
import { el, short } from "../dom";
import { counted, duration, percent } from "../format";
import { colourOf, inkOn } from "../theme/palette";

/** A function, or what else has a time and things within. */
export interface Node {
  title: string;
  ns: number;
  children: Map<string, Node>;
  /** Kind, for its colour; absent: a function. */
  kind?: string;
}

/** Boxes narrower than this share are left out: nobody could read them. */
const LEAST = 0.004;

export function flameGraph(stacks: WaitPart[], label: string): HTMLElement | null {
  const root: Node = { title: "", ns: 0, children: new Map() };
  for (const { stack, blocked_ns } of stacks) {
    if (stack) {
      root.ns += blocked_ns;
      add(root, stack.frames, blocked_ns);
    }
  }
  return nodeGraph(root, `${label}: ${counted(stacks.length, "stack")}`);
}

/** The graph of what lies within a node; `null`: it has no time. */
export function nodeGraph(root: Node, label: string): HTMLElement | null {
  if (root.ns === 0) {
    return null;
  }
  const lines: HTMLElement[] = [];
  draw(root, 0, 0, root.ns, lines);
  return el(
    "div.flame",
    { role: "img", "aria-label": `${label}, ${duration(root.ns)}` },
    ...lines,
  );
}

/** Returns the name of a frame. */
export function frameTitle(frame: Frame): string {
  const place = frame.offset === null ? "" : `+0x${frame.offset.toString(16)}`;
  return frame.function ?? `${frame.object ?? "not known"}${place}`;
}

/** Frames come with the innermost first. */
function add(root: Node, frames: Frame[], ns: number): void {
  let node = root;
  for (const frame of [...frames].reverse()) {
    const title = frameTitle(frame);
    let child = node.children.get(title);
    if (!child) {
      child = { title, ns: 0, children: new Map() };
      node.children.set(title, child);
    }
    child.ns += ns;
    node = child;
  }
}

/** Adds a line for a node, and for those below it. */
function draw(node: Node, depth: number, from: number, whole: number, lines: HTMLElement[]): void {
  let left = from;
  const children = [...node.children.values()].sort((a, b) => b.ns - a.ns);
  for (const child of children) {
    const share = child.ns / whole;
    if (share >= LEAST) {
      const line = lines[depth] ?? el("div.line");
      lines[depth] = line;
      const box = el(
        "i",
        { title: `${child.title}: ${duration(child.ns)}, ${percent(share)}` },
        short(child.title, 80),
      );
      box.style.left = `${left * 100}%`;
      box.style.width = `${share * 100}%`;
      const colour = colourOf(child.kind ?? (depth % 2 === 0 ? "function" : "task"));
      box.style.background = colour;
      box.style.color = inkOn(colour);
      line.append(box);
      draw(child, depth + 1, left, whole, lines);
    }
    left += share;
  }
}
