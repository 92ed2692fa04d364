// A canvas of our own: sharp on any screen, redrawn when its size or the theme changes, with a name, and with a table
// of what it shows for those who cannot see it.

import { el, show } from "../dom";
import { ink } from "../theme/palette";
import type { Scale } from "./scale";

/** Where values are drawn: within the axes. */
export interface Area {
  left: number;
  top: number;
  width: number;
  height: number;
}

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

export class Plot {
  readonly element: HTMLDivElement;
  readonly canvas: HTMLCanvasElement;
  /** How long the last draw took, ms: for the benchmark. */
  drewMs = 0;
  private asked = false;
  private readonly sizes: ResizeObserver;

  constructor(
    label: string,
    private readonly height: number | (() => number),
    private readonly draw: Draw,
  ) {
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.element = el("div.plot", { role: "group", "aria-label": label, tabindex: "0" }, this.canvas);
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.element);
  }

  /** Draws at the next frame. */
  redraw(): void {
    if (!this.asked) {
      this.asked = true;
      requestAnimationFrame(() => this.drawNow());
    }
  }

  drawNow(): void {
    this.asked = false;
    if (!this.element.isConnected) {
      this.sizes.disconnect();
      return;
    }
    const width = this.element.clientWidth;
    const height = typeof this.height === "number" ? this.height : this.height();
    const context = this.canvas.getContext("2d");
    if (!context || width === 0) {
      return;
    }
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    const begin = performance.now();
    this.draw(context, width, height);
    this.drewMs = performance.now() - begin;
  }
}

/** A plot's data as a table, made when it is opened. */
export function asTable(columns: string[], rows: () => (string | number)[][]): HTMLDetailsElement {
  const place = el("div.scroll", { tabindex: "0", role: "region", "aria-label": "the plot as a table" });
  const details = el("details.fallback", {}, el("summary", {}, "as a table"), place);
  details.addEventListener("toggle", () => {
    if (details.open) {
      const head = el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)));
      const body = rows().map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, cell))));
      show(place, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
    }
  });
  return details;
}

/** Draws the axis below an area. */
export function axisBelow(
  context: CanvasRenderingContext2D,
  area: Area,
  scale: Scale,
  labels: (ticks: number[]) => string[],
): void {
  const ticks = scale.ticks(Math.max(2, area.width / 110));
  const texts = labels(ticks);
  const bottom = area.top + area.height;
  const most = Math.min(area.left + area.width + 12, context.canvas.clientWidth);
  context.strokeStyle = ink("line");
  context.fillStyle = ink("soft");
  context.textAlign = "center";
  context.textBaseline = "top";
  context.beginPath();
  ticks.forEach((tick, index) => {
    const x = Math.round(scale.at(tick)) + 0.5;
    if (x >= area.left - 1 && x <= area.left + area.width + 1) {
      context.moveTo(x, area.top);
      context.lineTo(x, bottom + 4);
      const text = texts[index] ?? "";
      const half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(Math.max(x, half), most - half), bottom + 6);
    }
  });
  context.stroke();
}

/** Draws the axis to the left of an area. */
export function axisLeft(
  context: CanvasRenderingContext2D,
  area: Area,
  scale: Scale,
  labels: (ticks: number[]) => string[],
): void {
  const ticks = scale.ticks(Math.max(2, area.height / 50));
  const texts = labels(ticks);
  context.strokeStyle = ink("line");
  context.fillStyle = ink("soft");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.beginPath();
  ticks.forEach((tick, index) => {
    const y = Math.round(scale.at(tick)) + 0.5;
    context.moveTo(area.left, y);
    context.lineTo(area.left + area.width, y);
    context.fillText(texts[index] ?? "", area.left - 8, y);
  });
  context.stroke();
}
