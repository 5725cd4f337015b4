// What the allocator has from its device at a moment, to scale: segment after segment in the order of their addresses,
// wrapped like text; in each its blocks by category, and what is free hatched.
import { bytesText, countText, element, plainName, secondsText } from "./format";
import { Store } from "./store";
import { colour, fit, hatch } from "./theme";
import { hideTip, showTip, tipLine } from "./tip";

const ROW = 18;
const GAP = 4;
const SPACE = 3;  // pixels between segments

interface Piece { x: number; y: number; wide: number; block: number; range: number }

export class SegmentMap {
  readonly root = element("div", "segments");
  private readonly canvas = element("canvas", "map");
  private readonly slider = element("input");
  private readonly said = element("output", "said");
  private pieces: Piece[] = [];
  private inView = false;
  private stale = true;

  constructor(private readonly store: Store) {
    this.slider.type = "range";
    this.slider.id = "moment";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "moment");
    this.slider.addEventListener("input", () => store.setMoment(Number(this.slider.value)));
    this.root.append(element("div", "slider-row", this.slider, this.said), this.canvas);
    store.listen(change => { if (change !== "range") this.refresh(); });
    new IntersectionObserver(entries => {
      this.inView = entries[entries.length - 1].isIntersecting;
      if (this.inView && this.stale) this.draw();
    }, { rootMargin: "400px" }).observe(this.root);
    new ResizeObserver(() => this.refresh()).observe(this.root);
    this.canvas.addEventListener("pointermove", event => this.point(event));
    this.canvas.addEventListener("pointerleave", hideTip);
  }

  refresh(): void {
    this.stale = true;
    if (this.inView || this.store.drawsAll) this.draw();
  }

  private alive(): { ranges: number[]; blocks: number[] } {
    const history = this.store.history(), { ranges, blocks } = history.timeline, moment = this.store.moment;
    const found: number[] = [];
    for (let i = 0; i < ranges.bytes.length; i++) if (ranges.begin[i] <= moment && moment < ranges.end[i]) found.push(i);
    const live = history.alive(moment).filter(block => blocks.category[block] < this.store.data.categories.length - 1);
    live.sort((a, b) => blocks.address[a] - blocks.address[b]);
    return { ranges: found.sort((a, b) => ranges.address[a] - ranges.address[b]), blocks: live };
  }

  // Cuts [from, from + bytes) of a flow of bytes into rows.
  private put(flow: { x: number; row: number }, scale: number, width: number, bytes: number, block: number, range: number): void {
    let wide = bytes * scale;
    while (wide > 0) {
      if (flow.x >= width - 0.5) {
        flow.x = 0;
        flow.row++;
      }
      const part = Math.min(wide, width - flow.x);
      this.pieces.push({ x: flow.x, y: flow.row * (ROW + GAP), wide: part, block, range });
      flow.x += part;
      wide -= part;
    }
  }

  private layOut(width: number): number {
    const { ranges, blocks } = this.alive(), timeline = this.store.history().timeline;
    const all = ranges.reduce((sum, range) => sum + timeline.ranges.bytes[range], 0);
    const rows = Math.max(3, Math.min(16, Math.ceil(ranges.length / 4) + 6));
    const scale = width * rows / (all || 1), flow = { x: 0, row: 0 };
    this.pieces = [];
    let next = 0;
    for (const range of ranges) {
      const start = timeline.ranges.address[range], end = start + timeline.ranges.bytes[range];
      let at = start;
      while (next < blocks.length && timeline.blocks.address[blocks[next]] < start) next++;
      for (; next < blocks.length && timeline.blocks.address[blocks[next]] < end; next++) {
        const address = timeline.blocks.address[blocks[next]], bytes = timeline.blocks.bytes[blocks[next]];
        if (address > at) this.put(flow, scale, width, address - at, -1, range);
        this.put(flow, scale, width, Math.min(bytes, end - address), blocks[next], range);
        at = Math.max(at, address + bytes);
      }
      if (at < end) this.put(flow, scale, width, end - at, -1, range);
      flow.x += SPACE;
    }
    this.tellState(ranges, blocks, all);
    return (flow.row + 1) * (ROW + GAP);
  }

  private tellState(ranges: number[], blocks: number[], all: number): void {
    const history = this.store.history(), timeline = history.timeline;
    const live = blocks.reduce((sum, block) => sum + timeline.blocks.bytes[block], 0);
    const when = history.hasTime() ? `, ${secondsText(history.seconds(this.store.moment))}` : "";
    const kind = timeline.unit === "op" ? "the arena" : `${countText(ranges.length)} segments`;
    this.said.textContent = `${timeline.unit} ${countText(this.store.moment)} of ${countText(history.positions)}${when}: ` +
      `${bytesText(live)} live in ${kind} of ${bytesText(all)}, ${bytesText(Math.max(0, all - live))} free`;
    this.slider.max = String(history.positions - 1);
    this.slider.value = String(this.store.moment);
  }

  draw(): void {
    const width = this.canvas.clientWidth;
    if (!width) return;
    this.stale = false;
    this.canvas.style.height = this.layOut(width) + "px";
    const [context] = fit(this.canvas), { category } = this.store.history().timeline.blocks;
    const names = this.store.data.categories, free = hatch(context, colour("free-ink"), colour("free"));
    const fills = names.map(name => colour("c-" + name));
    for (const piece of this.pieces) {
      context.fillStyle = piece.block < 0 ? free : fills[category[piece.block]];
      context.globalAlpha = piece.block >= 0 && !this.inFocus(piece.block) ? 0.25 : 1;
      context.fillRect(piece.x, piece.y, Math.max(0.4, piece.wide - (piece.wide > 3 ? 1 : 0)), ROW);
    }
    context.globalAlpha = 1;
  }

  private inFocus(block: number): boolean {
    const history = this.store.history();
    return !history.focused || history.focused[history.timeline.blocks.label[block]] === 1;
  }

  private point(event: PointerEvent): void {
    const x = event.offsetX, y = event.offsetY;
    const piece = this.pieces.find(one => x >= one.x && x < one.x + one.wide && y >= one.y && y < one.y + ROW);
    if (!piece) return hideTip();
    const { data } = this.store, { blocks, ranges } = this.store.history().timeline;
    const segment = tipLine("segment of", bytesText(ranges.bytes[piece.range]));
    if (piece.block < 0) return showTip(event.clientX, event.clientY, [element("div", "tip-head", "free"), segment]);
    const label = blocks.label[piece.block], category = data.categories[blocks.category[piece.block]];
    showTip(event.clientX, event.clientY, [
      element("div", "tip-head", data.frames[data.labelPlace[label]]),
      tipLine(plainName(category), bytesText(blocks.bytes[piece.block]), colour("c-" + category)), segment]);
  }
}
