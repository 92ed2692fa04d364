// Distributions in five numbers, one below the other on one logarithmic axis: elements, so that they need no table.

import type { Box5 } from "../data/contract";
import { el } from "../dom";
import { duration } from "../format";
import { logarithmic } from "./scale";

/** Returns a function that draws a box on the axis that all `boxes` share. */
export function makeBoxDrawer(boxes: Box5[]): (box: Box5, colour: string) => HTMLElement {
  const above = boxes.flatMap((box) => [box.least, box.most]).filter((ns) => ns > 0);
  const least = Math.min(...above, 1e12);
  const most = Math.max(...above, least * 10);
  const scale = logarithmic(least, most, 0, 100);
  const at = (ns: number) => Math.max(0, Math.min(100, scale.at(Math.max(ns, least))));
  return (box, colour) => {
    const words = `min ${duration(box.least)}, p25 ${duration(box.quarter)}, median ${duration(box.median)}, p75 ${duration(box.three_quarters)}, max ${duration(box.most)}`;
    const out = el("div.box5", { role: "img", "aria-label": words, title: words });
    const piece = (name: string, from: number, to: number) => {
      const part = el("i", { class: name });
      part.style.left = `${at(from)}%`;
      part.style.width = `${at(to) - at(from)}%`;
      out.append(part);
      return part;
    };
    piece("whisker", box.least, box.most);
    piece("middle", box.quarter, box.three_quarters).style.background = colour;
    piece("median", box.median, box.median);
    return out;
  };
}
