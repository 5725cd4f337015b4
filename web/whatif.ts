// What could be otherwise: switches that can be combined, as far as the combinations were worked out, and the allocator
// whose reserved memory is drawn. Says what the choice needs, and whether that fits.
import { bytesText, button, element, secondsText } from "./format";
import { Store } from "./store";

export class WhatIf {
  readonly root = element("div", "whatif");
  private readonly switches: HTMLButtonElement[];
  private readonly allocators: HTMLButtonElement[];
  private readonly answer = element("p", "answer");

  constructor(private readonly store: Store) {
    const { data } = store;
    this.switches = data.switches.map((entry, i) => {
      const made = button(entry.name, "switch", () => store.setSwitches(store.switches ^ 1 << i), entry.note);
      made.id = "switch-" + entry.id;
      made.setAttribute("role", "switch");
      return made;
    });
    const used = new Set(data.views.flatMap(view => view.reserved.map(line => line.allocator)));
    this.allocators = [-1, ...data.allocators.keys()].filter(i => i < 0 || used.has(i)).map(i => {
      const made = button(i < 0 ? "live bytes" : data.allocators[i], "choice", () => store.setAllocator(i));
      made.dataset.allocator = String(i);
      return made;
    });
    if (this.switches.length) this.root.append(this.row("What if", this.switches));
    if (this.allocators.length > 1) this.root.append(this.row(data.allocators.length > 1 ? "Allocator" : "Show", this.allocators));
    this.answer.setAttribute("aria-live", "polite");
    this.root.append(this.answer);
    store.listen(change => { if (change === "view") this.show(); });
    this.show();
  }

  private row(name: string, buttons: HTMLButtonElement[]): HTMLElement {
    const made = element("div", "choices", element("span", "row-name", name), ...buttons);
    made.setAttribute("role", "group");
    made.setAttribute("aria-label", name);
    return made;
  }

  private show(): void {
    const store = this.store;
    this.switches.forEach((made, i) => {
      made.setAttribute("aria-checked", String((store.switches >> i & 1) === 1));
      made.disabled = !store.has(store.switches ^ 1 << i);
    });
    for (const made of this.allocators) {
      const allocator = Number(made.dataset.allocator);
      made.setAttribute("aria-pressed", String(allocator === store.allocator));
      made.disabled = allocator >= 0 && !store.view().reserved.some(line => line.allocator === allocator);
    }
    this.tellNeed();
  }

  private tellNeed(): void {
    const { data } = this.store, view = this.store.view(), base = data.views[0];
    const reserved = this.store.reserved(), needs = reserved ? reserved.peak_bytes : view.peak_bytes;
    const names = data.switches.filter((_, i) => this.store.switches >> i & 1).map(entry => entry.note || entry.name);
    const what = reserved ? `reserved (${data.allocators[reserved.allocator]})` : "live at the most";
    const parts: (Node | string)[] = [element("b", "", bytesText(needs)), ` ${what}`];
    const saved = base.peak_bytes - view.peak_bytes;
    if (this.store.switches) parts.push(saved >= 0 ? `, ${bytesText(saved)} less live` : `, ${bytesText(-saved)} more live`);
    if (view.seconds && base.seconds && view !== base) {
      parts.push(`, about ${secondsText(view.seconds)} a step instead of ${secondsText(base.seconds)}`);
    }
    if (data.limit) {
      const left = data.limit.value_bytes - needs;
      parts.push(" ", element("span", "pill " + (left >= 0 ? "good" : "bad"), left >= 0
        ? `fits: ${bytesText(left)} to spare` : `${bytesText(-left)} too much`));
    }
    if (names.length) parts.push(element("span", "soft", "  " + names.join("; ")));
    this.answer.replaceChildren(...parts);
    this.answer.dataset.needsBytes = String(needs);
  }
}
