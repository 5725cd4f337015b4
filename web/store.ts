// What the parts of the page share: which view, which moment, which part of the program, which range of positions. One
// object; who changes it says so, and the others draw again.
import { PageData, View } from "./data";
import { History } from "./history";

export type Change = "view" | "moment" | "focus" | "range" | "theme";

export class Store {
  switches = 0;
  allocator = -1;  // that is drawn; -1: live bytes alone
  private wanted = -1;  // that was chosen: a view may not have it
  moment = 0;      // position that flame graph, segments and table show
  focus: number[] = [];  // frames from the root of the flame graph to the chosen node
  range: [number, number] = [0, 1];
  byTime = false;
  drawsAll = false;  // also what is out of sight: for printing
  private listeners: ((change: Change) => void)[] = [];
  private histories = new Map<number, History>();

  constructor(readonly data: PageData) {
    this.history().highlight(null);
    this.range = [0, this.history().positions];
    this.moment = this.history().peakPosition;
    this.allocator = this.wanted = data.views[0].reserved[0]?.allocator ?? -1;
  }

  view(): View {
    return this.data.views.find(view => view.switches === this.switches) ?? this.data.views[0];
  }
  has(switches: number): boolean {
    return this.data.views.some(view => view.switches === switches);
  }
  history(view = this.view()): History {
    let made = this.histories.get(view.switches);
    if (!made) {
      made = new History(this.data, view);
      this.histories.set(view.switches, made);
      if (this.histories.size > 6) this.histories.delete([...this.histories.keys()].find(key => key !== 0)!);
    }
    return made;
  }
  reserved() {
    return this.view().reserved.find(line => line.allocator === this.allocator);
  }

  setSwitches(switches: number): void {
    const before = this.history();
    this.switches = switches;
    const now = this.history();
    if (now.timeline !== before.timeline) {
      const wasWhole = this.range[0] <= 0 && this.range[1] >= before.positions;
      const scale = now.positions / before.positions;
      this.range = wasWhole ? [0, now.positions] : [this.range[0] * scale, this.range[1] * scale];
    }
    this.moment = now.peakPosition;
    const lines = now.view.reserved.map(line => line.allocator);
    this.allocator = this.wanted < 0 || lines.includes(this.wanted) ? this.wanted : lines[0] ?? -1;
    if (this.focus.length) this.applyFocus();
    this.tell("view");
  }
  setAllocator(allocator: number): void {
    this.allocator = this.wanted = allocator;
    this.tell("view");
  }
  setMoment(moment: number): void {
    const last = this.history().positions - 1;
    this.moment = Math.max(0, Math.min(last, Math.round(moment)));
    this.tell("moment");
  }
  setFocus(focus: number[]): void {
    this.focus = focus;
    this.applyFocus();
    this.tell("focus");
  }
  private applyFocus(): void {
    const labels = this.focus.length ? labelsUnder(this.data, this.focus) : null;
    this.history().highlight(labels);
  }
  setRange(from: number, to: number): void {
    const positions = this.history().positions;
    const span = Math.max(Math.min(8, positions), Math.min(positions, to - from));
    const start = Math.max(0, Math.min(positions - span, from));
    this.range = [start, start + span];
    this.tell("range");
  }
  zoom(at: number, factor: number): void {
    const [from, to] = this.range;
    this.setRange(at - (at - from) * factor, at + (to - at) * factor);
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }
  tell(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }
}

// Frames of a label that are shown: plumbing only when asked for.
export function shownPath(data: PageData, label: number, plumbing: boolean): number[] {
  const path: number[] = [];
  for (let i = data.labelStart[label]; i < data.labelStart[label + 1]; i++) {
    const frame = data.labelPath[i];
    if (plumbing || data.frameKinds[frame] !== 2) path.push(frame);
  }
  return path.length ? path : [data.labelPlace[label]];
}

// Which labels have all frames of `focus` in this order from their outermost on, others between them or not.
function labelsUnder(data: PageData, focus: number[]): Uint8Array {
  const found = new Uint8Array(data.labelPlace.length);
  for (let label = 0; label < found.length; label++) {
    let matched = 0;
    for (let i = data.labelStart[label]; i < data.labelStart[label + 1] && matched < focus.length; i++) {
      if (data.labelPath[i] === focus[matched]) matched++;
    }
    found[label] = matched === focus.length ? 1 : 0;
  }
  return found;
}
