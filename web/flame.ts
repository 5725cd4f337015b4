// Who holds the memory at the chosen moment, from the outermost call or module inward: each box is as wide as its bytes.
// A box that is chosen becomes the whole width, and the timeline and the table show what is under it.
import { bytesText, element, plainName } from "./format";
import { Store, shownPath } from "./store";
import { colour } from "./theme";
import { hideTip, showTip, tipLine } from "./tip";

interface Node {
  frame: number;  // -1: everything
  bytes: number;
  blocks: number;
  byCategory: Float64Array;
  children: Map<number, Node>;
  parent: Node | null;
}

const ROW = 24;
const LEAST = 0.0022;  // of the width

function makeNode(frame: number, categories: number, parent: Node | null): Node {
  return { frame, bytes: 0, blocks: 0, byCategory: new Float64Array(categories), children: new Map(), parent };
}

function pathOf(node: Node): number[] {
  const path: number[] = [];
  for (let at: Node | null = node; at && at.frame >= 0; at = at.parent) path.unshift(at.frame);
  return path;
}

export class FlameGraph {
  readonly root = element("div", "flame");
  private readonly rows = element("div", "flame-rows");
  private readonly crumbs = element("div", "crumbs");
  private plumbing = false;
  private inView = false;
  private stale = true;

  constructor(private readonly store: Store) {
    const bar = element("div", "bar-row", this.crumbs);
    if (store.data.frameKinds.includes(2)) bar.append(this.plumbingSwitch());
    this.root.append(bar, this.rows);
    store.listen(change => { if (change !== "range") this.refresh(); });
    new IntersectionObserver(entries => {
      this.inView = entries[entries.length - 1].isIntersecting;
      if (this.inView && this.stale) this.draw();
    }, { rootMargin: "400px" }).observe(this.root);
  }

  private plumbingSwitch(): HTMLElement {
    const box = element("input");
    box.type = "checkbox";
    box.id = "framework-frames";
    box.addEventListener("change", () => {
      this.plumbing = box.checked;
      this.store.setFocus([]);
    });
    const label = element("label", "check", box, " framework's own frames");
    return label;
  }

  refresh(): void {
    this.stale = true;
    if (this.inView || this.store.drawsAll) this.draw();
  }

  private tree(): Node {
    const { data } = this.store, history = this.store.history(), { label, category } = history.timeline.blocks;
    const root = makeNode(-1, data.categories.length, null);
    const add = (node: Node, block: number) => {
      node.bytes += history.bytes[block];
      node.blocks++;
      node.byCategory[category[block]] += history.bytes[block];
    };
    const paths = new Map<number, number[]>();
    for (const block of history.alive(this.store.moment)) {
      let path = paths.get(label[block]);
      if (!path) paths.set(label[block], path = shownPath(data, label[block], this.plumbing));
      let node = root;
      add(node, block);
      for (const frame of path) {
        if (frame === node.frame) continue;
        let child = node.children.get(frame);
        if (!child) node.children.set(frame, child = makeNode(frame, data.categories.length, node));
        add(child, block);
        node = child;
      }
    }
    return root;
  }

  draw(): void {
    this.stale = false;
    const root = this.tree();
    let top = root;
    for (const frame of this.store.focus) {
      const child = top.children.get(frame);
      if (!child) break;
      top = child;
    }
    const boxes: HTMLElement[] = [];
    let depth = 0;
    for (let at: Node | null = top; at; at = at.parent) depth++;
    const way: Node[] = [];
    for (let at: Node | null = top; at; at = at.parent) way.unshift(at);
    way.forEach((node, row) => boxes.push(this.box(node, row, 0, 1, row < way.length - 1)));
    let deepest = depth;
    const place = (node: Node, row: number, x: number) => {
      const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes);
      for (const child of children) {
        const wide = child.bytes / (top.bytes || 1);
        if (wide < LEAST) break;
        boxes.push(this.box(child, row, x, wide, false));
        deepest = Math.max(deepest, row + 1);
        place(child, row + 1, x);
        x += wide;
      }
    };
    place(top, depth, 0);
    this.rows.style.height = deepest * ROW + "px";
    const hadFocus = this.rows.contains(document.activeElement);
    this.rows.replaceChildren(...boxes);
    if (hadFocus) (boxes[way.length - 1] as HTMLElement).focus();
    this.drawCrumbs(top);
  }

  private drawCrumbs(top: Node): void {
    const where = top.frame < 0 ? "everything alive at this moment" : this.store.data.frames[top.frame];
    this.crumbs.replaceChildren(element("b", "", bytesText(top.bytes)), ` in ${top.blocks} blocks: ${where}`);
  }

  private text(node: Node): string {
    return node.frame < 0 ? "all" : this.store.data.frames[node.frame];
  }
  // Of a module within its parent, what the parent does not say.
  private shortText(node: Node): string {
    const text = this.text(node), outer = node.parent && node.parent.frame >= 0 ? this.text(node.parent) + "." : "";
    return outer && text.startsWith(outer) ? text.slice(outer.length) : text;
  }

  private box(node: Node, row: number, x: number, wide: number, passed: boolean): HTMLElement {
    const names = this.store.data.categories, text = this.text(node);
    let main = 0;
    node.byCategory.forEach((bytes, category) => { if (bytes > node.byCategory[main]) main = category; });
    const box = element("button", "box" + (passed ? " passed" : ""), element("span", "", this.shortText(node)));
    if (wide > 0.08) box.append(element("em", "", bytesText(node.bytes, 1)));
    box.type = "button";
    box.style.cssText = `left:${x * 100}%;width:${wide * 100}%;top:${row * ROW}px`;
    const name = names[main];
    box.style.setProperty("--fill", node.frame < 0 ? colour("rest") : colour(name === "failed request" ? "bad" : "c-" + name));
    box.setAttribute("aria-label", `${text}: ${bytesText(node.bytes)}`);
    box.addEventListener("click", () => this.store.setFocus(pathOf(node)));
    box.addEventListener("keydown", event => this.key(event, box));
    const tip = (px: number, py: number) => showTip(px, py, this.describe(node));
    box.addEventListener("pointermove", event => tip(event.clientX, event.clientY));
    box.addEventListener("pointerleave", hideTip);
    return box;
  }

  private describe(node: Node): HTMLElement[] {
    const names = this.store.data.categories;
    const lines = [element("div", "tip-head", this.text(node)), tipLine(`${node.blocks} blocks`, bytesText(node.bytes))];
    node.byCategory.forEach((bytes, category) => {
      if (bytes > 0) lines.push(tipLine(plainName(names[category]), bytesText(bytes), colour(names[category] === "failed request" ? "bad" : "c-" + names[category])));
    });
    return lines;
  }

  // Arrow keys go to the box above, below, left and right; Escape to everything.
  private key(event: KeyboardEvent, box: HTMLElement): void {
    if (event.key === "Escape") return this.store.setFocus([]);
    const ways: Record<string, [number, number]> = {
      ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0],
    };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const row = parseFloat(box.style.top) + way[1] * ROW, left = parseFloat(box.style.left);
    const others = [...this.rows.children as HTMLCollectionOf<HTMLElement>]
      .filter(other => parseFloat(other.style.top) === row)
      .filter(other => way[0] === 0 || Math.sign(parseFloat(other.style.left) - left) === way[0]);
    others.sort((a, b) => Math.abs(parseFloat(a.style.left) - left) - Math.abs(parseFloat(b.style.left) - left));
    others[0]?.focus();
  }
}
