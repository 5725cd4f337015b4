// Numbers as text, and elements of the page.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytesText(bytes: number, digits = 2): string {
  let unit = 0;
  while (Math.abs(bytes) >= 1023.995 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  return (unit ? bytes.toFixed(digits) : String(Math.round(bytes))) + " " + UNITS[unit];
}

// Ticks at round figures of one binary unit.
export function byteTicks(most: number, count: number): { values: number[]; text: (value: number) => string } {
  let unit = 0;
  while (most / 1024 ** unit >= 1024 && unit < UNITS.length - 1) unit++;
  const scale = 1024 ** unit;
  const rough = most / scale / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough)!;
  const values: number[] = [];
  for (let value = 0; value * scale <= most; value += step) values.push(value * scale);
  const digits = step >= 1 && Number.isInteger(step) ? 0 : step * 10 % 1 < 1e-9 ? 1 : 2;
  return { values, text: value => (value / scale).toFixed(digits) + " " + UNITS[unit] };
}

export function secondsText(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return (seconds * 1e6).toFixed(0) + " µs";
  if (seconds < 1) return (seconds * 1e3).toFixed(seconds < 0.1 ? 2 : 1) + " ms";
  return seconds.toFixed(3) + " s";
}

export const countText = (count: number): string => count.toLocaleString("en-US");
export const plainName = (name: string): string => name.replace(/_/g, " ");

type Child = Node | string | null | undefined | false;

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K, className = "", ...children: Child[]): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const child of children) if (child) made.append(child);
  return made;
}

export function svg(tag: string, attributes: Record<string, string | number> = {}, text = ""): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text) made.textContent = text;
  return made;
}

export function button(text: string, className: string, click: () => void, title = ""): HTMLButtonElement {
  const made = element("button", className, text);
  made.type = "button";
  if (title) made.title = title;
  made.addEventListener("click", click);
  return made;
}

// A section with a heading; `about` says in a sentence what is seen.
export function section(id: string, title: string, about = ""): HTMLElement {
  const made = element("section", "panel");
  made.id = id;
  const heading = element("h2", "", title);
  heading.id = id + "-title";
  made.setAttribute("aria-labelledby", heading.id);
  made.append(element("header", "", heading, about ? element("p", "about", about) : null));
  return made;
}
