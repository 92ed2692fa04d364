// Shares of a whole as a bar, and what its colours mean.

import { el } from "../dom";
import { percent, words } from "../format";
import { colourOf } from "../theme/palette";
import type { StageShare } from "../data/contract";

/** A bar of named shares, 0–1 each. */
export function shareBar(
  shares: [string, number, string?][],
  label: string,
  tall = false,
  say: (name: string) => string = words,
): HTMLElement {
  const bar = el("div.bar", { role: "img", "aria-label": label });
  bar.classList.toggle("tall", tall);
  for (const [name, share] of shares) {
    const piece = el("i", { title: `${say(name)} ${percent(share)}` });
    piece.style.flex = `${share} 0 0`;
    piece.style.background = colourOf(name);
    bar.append(piece);
  }
  return bar;
}

/** Returns the legend of a bar, largest first, without the tiny ones. */
export function legend(shares: [string, number, string?][], least = 0.0005): HTMLElement {
  const shown = shares.filter(([, share]) => share >= least).sort((a, b) => b[1] - a[1]);
  const items = shown.map(([name, share, doc]) => {
    const key = el("span.key");
    key.style.background = colourOf(name);
    return el("li", { title: doc ?? null }, key, `${words(name)} ${percent(share)}`);
  });
  return el("ul.legend", {}, ...items);
}

/** The shares of a connection's stages, in order of decision. */
export function stageShares(stages: Record<string, StageShare>, order: [string, string][]): [string, number, string][] {
  const shares: [string, number, string][] = [];
  for (const [name, doc] of order) {
    const stage = stages[name];
    if (stage) {
      shares.push([name, stage.share, doc.trim()]);
    }
  }
  return shares;
}

/** The same in words. */
export function shareWords(shares: [string, number, string?][]): string {
  const shown = shares.filter(([, share]) => share >= 0.0005).sort((a, b) => b[1] - a[1]);
  return shown.map(([name, share]) => `${words(name)} ${percent(share)}`).join(", ");
}
