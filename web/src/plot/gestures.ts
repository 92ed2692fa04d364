// What pointer and keys do on a plot: drag brushes, wheel and WASD or arrows zoom and pan along the time axis, a click
// picks, hovering shows details.

import { el } from "../dom";
import type { Area, Plot } from "./plot";
import type { Scale } from "./scale";
import { hideTip, tipAt } from "./tip";

export interface Gestures {
  area: () => Area;
  x: () => Scale;
  /** Absent: only the time axis is brushed. */
  y?: () => Scale;
  /** All of the time axis. */
  whole: [number, number];
  /** Zooms; `null`: to all of it. */
  zoom?: (view: [number, number] | null) => void;
  brush?: (x: [number, number], y: [number, number] | null) => void;
  click?: (x: number, y: number) => void;
  /** Lines for what is at a place; `null`: nothing. */
  hover?: (x: number, y: number) => string[] | null;
}

/** Pixels below which a drag is a click. */
const STILL = 4;
const ZOOM = 1.3;
const PAN = 0.15;

/** Adds the gestures of mouse and keys to a plot. */
export function gestures(plot: Plot, options: Gestures): void {
  brushing(plot, options);
  const { canvas, element } = plot;
  canvas.addEventListener("mousemove", (event) => {
    const lines = event.buttons === 0 ? options.hover?.(event.offsetX, event.offsetY) : null;
    if (lines) {
      tipAt(event, lines);
    } else {
      hideTip();
    }
  });
  canvas.addEventListener("mouseleave", hideTip);
  if (!options.zoom) {
    return;
  }
  element.classList.add("zooms");
  canvas.addEventListener(
    "wheel",
    (event) => {
      // Without Ctrl the wheel moves the page, as everywhere.
      if (event.ctrlKey || event.metaKey || event.shiftKey) {
        event.preventDefault();
        const by = event.deltaY + event.deltaX > 0 ? ZOOM : 1 / ZOOM;
        zoomed(options, by, options.x().value(event.offsetX));
      }
    },
    { passive: false },
  );
  canvas.addEventListener("dblclick", () => options.zoom?.(null));
  element.addEventListener("keydown", (event) => keyed(options, event));
}

/** Handles a key: zooms or moves the plot. */
function keyed(options: Gestures, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const acts: Record<string, () => void> = {
    w: () => zoomed(options, 1 / ZOOM),
    ArrowUp: () => zoomed(options, 1 / ZOOM),
    s: () => zoomed(options, ZOOM),
    ArrowDown: () => zoomed(options, ZOOM),
    a: () => panned(options, -PAN),
    ArrowLeft: () => panned(options, -PAN),
    d: () => panned(options, PAN),
    ArrowRight: () => panned(options, PAN),
    "0": () => options.zoom?.(null),
  };
  const act = acts[key];
  if (act) {
    event.preventDefault();
    act();
  }
}

function zoomed(options: Gestures, by: number, around?: number): void {
  const { from, to } = options.x();
  const at = around ?? (from + to) / 2;
  const next: [number, number] = [at - (at - from) * by, at + (to - at) * by];
  moved(options, next);
}

function panned(options: Gestures, by: number): void {
  const { from, to } = options.x();
  const step = (to - from) * by;
  const [low, high] = options.whole;
  const kept = Math.max(low - from, Math.min(step, high - to));
  moved(options, [from + kept, to + kept]);
}

function moved(options: Gestures, next: [number, number]): void {
  const [low, high] = options.whole;
  const from = Math.max(low, next[0]);
  const to = Math.min(high, next[1]);
  // A few nanoseconds are the limit of the zoom.
  if (to - from > 20) {
    options.zoom?.(from <= low && to >= high ? null : [from, to]);
  }
}

/** Lets the user select a part of a plot with the mouse. */
function brushing(plot: Plot, options: Gestures): void {
  const box = el("div.brush", { hidden: true });
  plot.element.append(box);
  let start: [number, number] | null = null;
  const inside = (event: PointerEvent): [number, number] => {
    const bounds = plot.canvas.getBoundingClientRect();
    const area = options.area();
    const x = Math.min(Math.max(event.clientX - bounds.left, area.left), area.left + area.width);
    const y = Math.min(Math.max(event.clientY - bounds.top, area.top), area.top + area.height);
    return [x, y];
  };
  plot.canvas.addEventListener("pointerdown", (event) => {
    if (event.button === 0) {
      start = inside(event);
      plot.canvas.setPointerCapture(event.pointerId);
    }
  });
  plot.canvas.addEventListener("pointermove", (event) => {
    if (!start || !options.brush) {
      return;
    }
    const [x, y] = inside(event);
    const area = options.area();
    const [top, bottom] = options.y
      ? [Math.min(y, start[1]), Math.max(y, start[1])]
      : [area.top, area.top + area.height];
    box.hidden = Math.abs(x - start[0]) < STILL;
    box.style.left = `${Math.min(x, start[0])}px`;
    box.style.width = `${Math.abs(x - start[0])}px`;
    box.style.top = `${top}px`;
    box.style.height = `${bottom - top}px`;
  });
  plot.canvas.addEventListener("pointerup", (event) => {
    const begin = start;
    start = null;
    box.hidden = true;
    if (!begin) {
      return;
    }
    const [x, y] = inside(event);
    if (Math.abs(x - begin[0]) < STILL) {
      options.click?.(x, y);
    } else {
      const range = (scale: Scale, a: number, b: number): [number, number] => {
        const ends = [scale.value(a), scale.value(b)];
        return [Math.min(...ends), Math.max(...ends)];
      };
      options.brush?.(range(options.x(), begin[0], x), options.y ? range(options.y(), begin[1], y) : null);
    }
  });
}
