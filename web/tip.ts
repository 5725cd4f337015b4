// The one tooltip of the page. Shown by pointer, by touch and by keyboard focus.
import { element } from "./format";

const tip = element("div", "tip");
tip.setAttribute("role", "status");
tip.hidden = true;

export function placeTip(parent: HTMLElement): void {
  parent.append(tip);
}

export function showTip(x: number, y: number, content: (Node | string)[]): void {
  tip.replaceChildren(...content);
  tip.hidden = content.length === 0;
  if (tip.hidden) return;
  const left = x + 16 + tip.offsetWidth > innerWidth ? x - 16 - tip.offsetWidth : x + 16;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = Math.max(8, Math.min(y + 14, innerHeight - tip.offsetHeight - 8)) + "px";
}

export function hideTip(): void {
  tip.hidden = true;
}

export function tipLine(name: string, value: string, swatch = ""): HTMLElement {
  const line = element("div", "tip-line");
  if (swatch) {
    const box = element("i");
    box.style.background = swatch;
    line.append(box);
  }
  line.append(element("span", "", name), element("b", "", value));
  return line;
}
