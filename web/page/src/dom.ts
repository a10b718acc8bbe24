// Elements of the page.

/** Names come from the model: characters that would reverse or hide text are replaced. */
export const show = (text: unknown): string =>
  String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (!element) throw new Error(`there is no #${id}`);
  return element as T;
}

type Children = (Node | string)[];

/** Makes an element with attributes; those that begin with `on` are listeners. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean | EventListener | undefined> = {},
  ...children: Children
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (typeof value === "string") element.setAttribute(name, value);
  }
  element.append(...children.map((child) => (typeof child === "string" ? show(child) : child)));
  return element;
}

const UNITS = ["bytes", "KB", "MB", "GB"];

export function bytes(n: number): string {
  let unit = 0;
  while (n >= 1000 && unit < UNITS.length - 1) [n, unit] = [n / 1000, unit + 1];
  return `${unit === 0 || n >= 100 ? Math.floor(n) : n.toFixed(1)} ${UNITS[unit]}`;
}
