// The ops around the one at the chosen moment, in columns by how many tensors lie between: what is read on the left, readers
// on the right, bytes on the edges. Of a column the nodes with most bytes are shown.
import { Edges } from "./data";
import { bytesText, countText, element, svg } from "./format";
import { Store } from "./store";

const STEPS = 2;     // columns on each side
const MOST = 7;      // nodes in a column
const WIDE = 176, HIGH = 38, GAP = 78, SPACE = 16, LETTERS = 25;

interface Node { op: number; label: number; column: number; row: number; bytes: number }  // op -1: comes in
interface Drawn { edge: number; from: Node; to: Node }

// The edges that end at each op, or begin there.
function byOp(ends: Int32Array): Map<number, number[]> {
  const found = new Map<number, number[]>();
  ends.forEach((op, edge) => {
    if (op < 0) return;
    const list = found.get(op);
    if (list) list.push(edge);
    else found.set(op, [edge]);
  });
  return found;
}

const cut = (text: string): string => text.length > LETTERS ? text.slice(0, LETTERS - 1) + "…" : text;

export class GraphView {
  readonly root = element("div", "scroll graph");
  private edges: Edges | null = null;
  private into = new Map<number, number[]>();
  private outOf = new Map<number, number[]>();

  constructor(private readonly store: Store) {
    store.listen(change => { if (change === "view" || change === "moment") this.draw(); });
    this.draw();
  }

  private read(): Edges {
    const edges = this.store.history().timeline.edges;
    if (edges !== this.edges) {
      this.edges = edges;
      this.into = byOp(edges.to);
      this.outOf = byOp(edges.from);
    }
    return edges;
  }

  // Column by column away from the middle; `sign` is -1 towards what is read.
  private spread(nodes: Map<string, Node>, middle: Node, sign: number): number {
    const edges = this.edges!, next = sign < 0 ? this.into : this.outOf;
    let front = [middle], left = 0;
    for (let step = 1; step <= STEPS; step++) {
      const found = new Map<string, Node>();
      for (const node of front) {
        for (const edge of next.get(node.op) ?? []) {
          const op = sign < 0 ? edges.from[edge] : edges.to[edge];
          const key = op < 0 ? "in" + edges.label[edge] : String(op);
          if (nodes.has(key)) continue;
          const known = found.get(key);
          if (known) known.bytes += edges.bytes[edge];
          else found.set(key, { op, label: edges.label[edge], column: sign * step, row: 0, bytes: edges.bytes[edge] });
        }
      }
      const kept = [...found].sort((a, b) => b[1].bytes - a[1].bytes).slice(0, MOST);
      left += found.size - kept.length;
      kept.sort((a, b) => a[1].op - b[1].op).forEach(([key, node], row) => {
        node.row = row - (kept.length - 1) / 2;
        nodes.set(key, node);
      });
      front = kept.map(entry => entry[1]).filter(node => node.op >= 0);
    }
    return left;
  }

  private between(nodes: Map<string, Node>): Drawn[] {
    const edges = this.edges!, drawn: Drawn[] = [];
    for (const to of nodes.values()) {
      for (const edge of this.into.get(to.op) ?? []) {
        const from = nodes.get(edges.from[edge] < 0 ? "in" + edges.label[edge] : String(edges.from[edge]));
        if (from && from.column < to.column) drawn.push({ edge, from, to });
      }
    }
    return drawn;
  }

  private text(node: Node): [string, string] {
    const { data } = this.store;
    if (node.op < 0) {
      const [name, ...type] = data.frames[data.labelPlace[node.label]].split(" ");
      return [name, type.join(" ")];
    }
    const [name, ...result] = this.store.history().timeline.ops[node.op].split(" ");
    return [name, result.join(" ")];
  }

  private box(node: Node, x: number, y: number): SVGElement {
    const isOp = node.op >= 0, [first, second] = this.text(node);
    const made = svg("g", { class: "node" + (node.column === 0 ? " chosen" : isOp ? "" : " given"), transform: `translate(${x},${y})` });
    made.append(svg("rect", { width: WIDE, height: HIGH, rx: isOp ? 6 : HIGH / 2 }), svg("text", { x: WIDE / 2, y: 16 }, cut(first)),
      svg("text", { x: WIDE / 2, y: 30, class: "soft" }, cut(second)), svg("title", {}, first + " " + second));
    if (isOp && node.column !== 0) {
      made.setAttribute("role", "button");
      made.setAttribute("tabindex", "0");
      made.addEventListener("click", () => this.store.setMoment(node.op));
      made.addEventListener("keydown", event => { if (event.key === "Enter") this.store.setMoment(node.op); });
    }
    return made;
  }

  private draw(): void {
    const edges = this.read(), middle: Node = { op: this.store.moment, label: 0, column: 0, row: 0, bytes: 0 };
    const nodes = new Map([[String(middle.op), middle]]);
    const left = this.spread(nodes, middle, -1) + this.spread(nodes, middle, 1);
    const rows = Math.max(...[...nodes.values()].map(node => Math.abs(node.row))) * 2 + 1;
    const width = (2 * STEPS + 1) * (WIDE + GAP) - GAP, height = rows * (HIGH + SPACE);
    const x = (node: Node) => (node.column + STEPS) * (WIDE + GAP), y = (node: Node) => height / 2 + node.row * (HIGH + SPACE) - HIGH / 2;
    const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "ops and the tensors between them" });
    const labels: SVGElement[] = [];
    for (const { edge, from, to } of this.between(nodes)) {
      const x0 = x(from) + WIDE, y0 = y(from) + HIGH / 2, x1 = x(to), y1 = y(to) + HIGH / 2, half = GAP / 2;
      const wide = 1 + Math.min(5, Math.log2(1 + edges.bytes[edge] / 2 ** 16) / 2);
      const line = svg("path", { class: "edge", d: `M${x0} ${y0}C${x0 + half} ${y0} ${x1 - half} ${y1} ${x1} ${y1}`, "stroke-width": wide });
      line.append(svg("title", {}, this.store.data.frames[this.store.data.labelPlace[edges.label[edge]]]));
      made.append(line);
      // Beside the node that has fewer edges at that end, so that labels of one column do not cover each other.
      const nearTo = Math.abs(to.row) > Math.abs(from.row) || to.column > 0;
      labels.push(svg("text", { class: "edge-bytes", x: nearTo ? x1 - half + 4 : x0 + half - 4, y: (nearTo ? 0.8 * y1 + 0.2 * y0 : 0.8 * y0 + 0.2 * y1) - 4 },
        bytesText(edges.bytes[edge], 1)));
    }
    for (const node of nodes.values()) made.append(this.box(node, x(node), y(node)));
    made.append(...labels);
    this.root.replaceChildren(made);
    if (left) this.root.append(element("p", "hint", `${countText(left)} more with fewer bytes are not shown`));
  }
}
