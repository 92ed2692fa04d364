// The words beside the pointer.

import { el, show } from "../dom";

const tip = el("div.tip", { role: "tooltip", hidden: true });

/** Shows lines of text at the pointer; the first is the title. */
export function tipAt(event: MouseEvent, lines: string[]): void {
  if (!tip.isConnected) {
    document.body.append(tip);
  }
  const [title, ...rest] = lines;
  show(tip, el("b", {}, title ?? ""), ...rest.map((line) => el("div", {}, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 10 : event.clientX + 14;
  const y = event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 16;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

export function hideTip(): void {
  tip.hidden = true;
}
