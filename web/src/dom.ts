// Elements without markup: all text goes in as text, with what would reorder or hide it made visible.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

/** Control characters (C0, DEL, C1), and those that reorder a line, break it, or cannot be seen. */
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Text of a recording as it may be shown. */
export function visible(text: string): string {
  return text.replace(UNSAFE, (char) => `\\u{${char.charCodeAt(0).toString(16)}}`);
}

/** Text of at most so many characters, for places with little room. */
export function short(text: string, most: number): string {
  const shown = visible(text.length > most ? text.slice(0, most) : text);
  return shown.length >= most ? `${shown.slice(0, most - 1)}…` : shown;
}

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : visible(String(value)));
    }
  }
  element.append(...nodes(children));
}

function nodes(children: Child[]): (Node | string)[] {
  const given = children.filter((child) => child !== null && child !== undefined && child !== false);
  return given.map((child) => (child instanceof Node ? child : visible(String(child))));
}

/** An HTML element; `tag` may carry classes: `td.number`. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K | `${K}.${string}`,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name as K);
  element.classList.add(...classes);
  fill(element, attributes, children);
  return element;
}

/** Text in which backquotes mark code. */
export function prose(text: string): (Node | string)[] {
  return text.split("`").map((part, index) => (index % 2 === 1 ? el("code", {}, part) : part));
}

/** A button that does something. */
export function button(label: Child, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const element = el("button", { type: "button", ...attributes }, label);
  element.addEventListener("click", act);
  return element;
}

/** Puts new children in the place of the old. */
export function show(element: Element, ...children: Child[]): void {
  element.replaceChildren(...nodes(children));
}
