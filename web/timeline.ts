// Live bytes over the history: a stack of categories with axes, the limit as a line, the failure as a mark, what the
// allocator holds as a step line, and as a dashed outline the history as it was when switches are on.
import { axisBottom, axisLeft } from "d3-axis";
import { Linear, scaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { button, byteTicks, bytesText, countText, element, plainName, secondsText, svg } from "./format";
import { Columns, History } from "./history";
import { Store } from "./store";
import { STACK_ORDER, colour, fit, hatch } from "./theme";
import { categoryKeys } from "./legend";
import { hideTip, showTip, tipLine } from "./tip";

const MARGIN = { left: 66, right: 28, top: 30, bottom: 42 };
const STEADY = matchMedia("(prefers-reduced-motion: reduce)");

export class TimelineChart {
  readonly root = element("div", "chart");
  private readonly canvas = element("canvas", "plot");
  private readonly overlay = svg("svg", { class: "axes", "aria-hidden": "true" });
  private readonly legend = element("div", "legend");
  private readonly order: number[];
  private x: Linear = scaleLinear();
  private y: Linear = scaleLinear();
  private width = 0;
  private height = 0;
  private shown: Columns | null = null;
  private waiting = false;
  private hover = -1;

  constructor(private readonly store: Store) {
    const names = store.data.categories;
    this.order = [names.length, ...STACK_ORDER.map(name => names.indexOf(name)).filter(i => i >= 0)];
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label",
      "Timeline of live memory. Arrow keys move the moment, plus and minus zoom, Home shows all.");
    this.root.append(element("div", "stage", this.canvas), this.tools(), this.legend);
    this.root.firstElementChild!.append(this.overlay);
    this.listen();
    store.listen(change => change === "view" ? this.animate() : this.later());
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  private tools(): HTMLElement {
    const store = this.store, middle = () => (store.range[0] + store.range[1]) / 2;
    const tools = element("div", "tools");
    tools.append(
      button("−", "tool", () => store.zoom(middle(), 1.6), "zoom out"),
      button("+", "tool", () => store.zoom(middle(), 0.625), "zoom in"),
      button("all", "tool", () => this.showAll(), "show the whole history"));
    if (store.history().hasTime()) {
      const byTime = button("by time", "tool", () => {
        store.byTime = !store.byTime;
        byTime.setAttribute("aria-pressed", String(store.byTime));
        store.tell("range");
      }, "seconds to the right instead of one step for each " + store.history().timeline.unit);
      byTime.setAttribute("aria-pressed", "false");
      tools.append(byTime);
    }
    tools.append(element("span", "hint", "click: choose a moment · drag: move · Ctrl + wheel, or the wheel over an axis: zoom"));
    return tools;
  }

  private showAll(): void {
    this.store.setRange(0, this.store.history().positions);
  }

  private useTime(): boolean {
    return this.store.byTime && this.store.history().hasTime();
  }

  // Position under a pixel of the plot.
  private positionAt(pixel: number): number {
    const history = this.store.history(), value = this.x.invert(pixel);
    return Math.max(0, Math.min(history.positions - 1, this.useTime() ? history.positionAt(value) : Math.floor(value)));
  }
  private pixelOf(position: number): number {
    return this.useTime() ? this.x(this.store.history().seconds(position)) : this.x(position);
  }

  private edges(history: History): Float64Array {
    const ratio = devicePixelRatio || 1, inner = Math.max(1, this.width - MARGIN.left - MARGIN.right);
    const count = Math.max(1, Math.round(inner * ratio)), edges = new Float64Array(count + 1);
    const [from, to] = this.store.range;
    const time = this.useTime();
    const [first, last] = time ? [history.seconds(from), history.seconds(to)] : [from, to];
    for (let i = 0; i <= count; i++) {
      const value = first + (last - first) * i / count;
      edges[i] = time ? history.positionAt(value) : value;
    }
    if (time) edges[count] = to;
    return edges;
  }

  private top(): number {
    const { data } = this.store;
    const live = Math.max(...data.views.map(view => view.peak_bytes), this.store.history(data.views[0]).peak);
    let most = live;
    for (const view of data.views) for (const line of view.reserved) if (line.peak_bytes < live * 2.5) most = Math.max(most, line.peak_bytes);
    if (data.limit && data.limit.value_bytes < live * 2.5) most = Math.max(most, data.limit.value_bytes);
    return most * 1.06 || 1;
  }

  private setScales(): void {
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const history = this.store.history(), [from, to] = this.store.range;
    const domain = this.useTime() ? [history.seconds(from), history.seconds(to)] : [from, to];
    this.x = scaleLinear().domain(domain).range([MARGIN.left, this.width - MARGIN.right]);
    this.y = scaleLinear().domain([0, this.top()]).range([this.height - MARGIN.bottom, MARGIN.top]);
  }

  later(): void {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw(): void {
    if (!this.canvas.clientWidth) return;
    const started = performance.now();
    this.setScales();
    this.shown = this.store.history().columns(this.edges(this.store.history()));
    this.paint(this.shown);
    this.drawAxes();
    this.drawLegend();
    this.root.dataset.drawMs = (performance.now() - started).toFixed(1);
    this.root.dataset.peakBytes = String(this.store.history().peak);
  }

  // From what is shown to the new view in a quarter of a second.
  private animate(): void {
    const before = this.shown;
    if (!before || STEADY.matches || document.hidden) return this.draw();
    this.setScales();
    const after = this.store.history().columns(this.edges(this.store.history()));
    if (after.parts.length !== before.parts.length) return this.draw();
    const start = performance.now();
    const frame = () => {
      const part = Math.min(1, (performance.now() - start) / 260), share = 1 - (1 - part) ** 3;
      const mixed: Columns = {
        groups: after.groups, total: after.total,
        parts: after.parts.map((value, i) => before.parts[i] + (value - before.parts[i]) * share),
      };
      this.paint(mixed);
      if (part < 1) requestAnimationFrame(frame);
      else this.draw();
    };
    frame();
  }

  private colours(context: CanvasRenderingContext2D): (string | CanvasPattern)[] {
    const names = this.store.data.categories;
    return [...names.map(name => name === "failed request" ? hatch(context, colour("bad"), colour("panel")) : colour("c-" + name)),
      colour("rest")];
  }

  private paint(columns: Columns): void {
    const [context, width, height] = fit(this.canvas);
    const inner = width - MARGIN.left - MARGIN.right, count = columns.total.length, step = inner / count;
    this.paintPhases(context, height);
    context.strokeStyle = colour("grid");
    context.lineWidth = 1;
    for (const value of byteTicks(this.y.domain()[1], 6).values) {
      const y = Math.round(this.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(MARGIN.left, y);
      context.lineTo(width - MARGIN.right, y);
      context.stroke();
    }
    const fills = this.colours(context), base = this.y(0), scale = (base - MARGIN.top) / this.y.domain()[1];
    const floor = new Float64Array(count);
    for (const group of this.order) {
      context.fillStyle = fills[group];
      for (let c = 0; c < count; c++) {
        const tall = columns.parts[c * columns.groups + group] * scale;
        if (tall <= 0) continue;
        context.fillRect(MARGIN.left + c * step, base - floor[c] - tall, step + 0.02, tall);
        floor[c] += tall;
      }
    }
    this.paintLines(context, width);
    this.paintMoment(context, height);
  }

  private paintPhases(context: CanvasRenderingContext2D, height: number): void {
    const history = this.store.history();
    const marks = history.timeline.marks.filter(mark => mark.kind === "phase");
    context.font = "11px system-ui, sans-serif";
    marks.forEach((mark, i) => {
      const next = marks[i + 1]?.at ?? history.positions;
      const from = Math.max(MARGIN.left, this.pixelOf(mark.at)), to = Math.min(this.width - MARGIN.right, this.pixelOf(next));
      if (to <= from) return;
      if (i % 2 === 0) {
        context.fillStyle = colour("band");
        context.fillRect(from, MARGIN.top, to - from, height - MARGIN.top - MARGIN.bottom);
      }
      if (to - from > context.measureText(mark.text).width + 8) {
        context.fillStyle = colour("soft");
        context.fillText(mark.text, from + 2, MARGIN.top - 6);
      }
    });
  }

  private line(context: CanvasRenderingContext2D, ink: string, dash: number[], width: number, draw: () => void): void {
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, 0, this.width - MARGIN.left - MARGIN.right, this.height);
    context.clip();
    context.strokeStyle = ink;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    draw();
    context.stroke();
    context.restore();
  }

  private paintLines(context: CanvasRenderingContext2D, width: number): void {
    const { data } = this.store;
    if (this.store.switches) this.paintGhost(context);
    const reserved = this.store.reserved();
    if (reserved) {
      this.line(context, colour("ink"), [], 1.75, () => {
        let y = this.y(0);
        reserved.at.forEach((at, i) => {
          const x = this.pixelOf(at), next = this.y(reserved.bytes[i]);
          if (i) context.lineTo(x, y);
          else context.moveTo(x, next);
          context.lineTo(x, y = next);
        });
        context.lineTo(width - MARGIN.right, y);
      });
    }
    if (data.limit) this.paintLimit(context, width, data.limit.name, data.limit.value_bytes);
  }

  private paintLimit(context: CanvasRenderingContext2D, width: number, name: string, bytes: number): void {
    const fits = bytes <= this.y.domain()[1], y = fits ? Math.round(this.y(bytes)) + 0.5 : MARGIN.top - 0.5;
    const text = fits ? `${name} ${bytesText(bytes)}` : `↑ ${name} ${bytesText(bytes)}, above the scale`;
    if (fits) {
      this.line(context, colour("bad"), [7, 4], 1.75, () => {
        context.moveTo(MARGIN.left, y);
        context.lineTo(width - MARGIN.right, y);
      });
    }
    context.font = "600 12px system-ui, sans-serif";
    const wide = context.measureText(text).width, left = fits ? MARGIN.left + 10 : width - MARGIN.right - wide;
    context.fillStyle = colour("panel");
    context.globalAlpha = 0.85;
    context.fillRect(left - 4, y - 19, wide + 8, 15);
    context.globalAlpha = 1;
    context.fillStyle = colour(fits ? "bad" : "soft");
    context.fillText(text, left, y - 7);
  }

  // The history without the switches, for comparison.
  private paintGhost(context: CanvasRenderingContext2D): void {
    const base = this.store.history(this.store.data.views[0]), now = this.store.history();
    const [from, to] = this.store.range, scale = base.positions / now.positions;
    const inner = this.width - MARGIN.left - MARGIN.right, count = Math.max(1, Math.floor(inner / 2));
    const edges = new Float64Array(count + 1).map((_, i) => (from + (to - from) * i / count) * scale);
    if (this.useTime()) return;
    const columns = base.columns(edges);
    this.line(context, colour("soft"), [3, 3], 1.25, () => {
      columns.total.forEach((bytes, c) => {
        const x = MARGIN.left + c * inner / count;
        if (c) context.lineTo(x, this.y(bytes));
        else context.moveTo(x, this.y(bytes));
      });
    });
  }

  private paintMoment(context: CanvasRenderingContext2D, height: number): void {
    const history = this.store.history();
    const upright = (position: number, ink: string, dash: number[], wide: number) => {
      const x = this.pixelOf(position + (this.useTime() ? 0 : 0.5));
      if (x < MARGIN.left - 1 || x > this.width - MARGIN.right + 1) return NaN;
      this.line(context, ink, dash, wide, () => {
        context.moveTo(x, MARGIN.top);
        context.lineTo(x, height - MARGIN.bottom);
      });
      return x;
    };
    if (history.failure >= 0) {
      const x = upright(history.failure, colour("bad"), [], 1.5);
      if (!Number.isNaN(x)) this.paintFailure(context, x);
    }
    upright(this.store.moment, colour("ink"), [2, 3], 1);
    if (this.hover >= 0 && this.hover !== this.store.moment) upright(this.hover, colour("soft"), [], 1);
  }

  private paintFailure(context: CanvasRenderingContext2D, x: number): void {
    const text = "out of memory", y = MARGIN.top - 10;
    context.font = "600 12px system-ui, sans-serif";
    const wide = context.measureText(text).width + 14;
    const left = Math.max(MARGIN.left, Math.min(x - wide / 2, this.width - MARGIN.right - wide));
    context.fillStyle = colour("bad");
    context.beginPath();
    context.roundRect(left, y - 12, wide, 18, 9);
    context.moveTo(x - 5, y + 5);
    context.lineTo(x + 5, y + 5);
    context.lineTo(x, y + 11);
    context.fill();
    context.fillStyle = colour("on-bad");
    context.fillText(text, left + 7, y + 1);
  }

  private drawAxes(): void {
    const unit = this.store.history().timeline.unit, time = this.useTime();
    const bytes = byteTicks(this.y.domain()[1], 6);
    this.overlay.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    const left = svg("g", { transform: `translate(${MARGIN.left},0)` });
    const bottom = svg("g", { transform: `translate(0,${this.height - MARGIN.bottom})` });
    select(left).call(axisLeft(this.y).tickValues(bytes.values).tickFormat(bytes.text).tickSize(0).tickPadding(8));
    const count = Math.max(2, Math.floor(this.width / 110));
    const span = Math.abs(this.x.domain()[1] - this.x.domain()[0]);
    select(bottom).call(axisBottom(this.x).ticks(count).tickSize(5)
      .tickFormat(value => time ? value.toFixed(span < 0.1 ? 4 : span < 10 ? 2 : 0) : Number.isInteger(value) ? countText(value) : ""));
    const label = svg("text", { x: this.width - MARGIN.right, y: this.height - 3, "text-anchor": "end", class: "axis-name" },
      time ? "seconds" : unit === "op" ? "ops of the step, in the order they run" : "allocations and frees");
    this.overlay.replaceChildren(left, bottom, label, ...this.stepTicks());
  }

  private stepTicks(): SVGElement[] {
    const steps = this.store.history().timeline.marks.filter(mark => mark.kind === "step");
    const visible = steps.map((mark, i) => ({ x: this.pixelOf(mark.at), n: i + 1 }))
      .filter(({ x }) => x >= MARGIN.left && x <= this.width - MARGIN.right);
    if (!visible.length || visible.length > this.width / 8) return [];
    const y = this.height - MARGIN.bottom;
    return visible.map(({ x, n }) => {
      const tick = svg("path", { d: `M${x - 4},${y + 7}h8l-4,-6z`, class: "step" });
      tick.append(svg("title", {}, `optimizer step ${n} ends`));
      return tick;
    });
  }

  private drawLegend(): void {
    const { data } = this.store, history = this.store.history();
    const now = history.at(this.hover >= 0 ? this.hover : this.store.moment);
    const items = categoryKeys(this.store, now);
    const line = (className: string, text: string) => element("span", "key", element("i", "line " + className), text);
    if (history.focused) items.push(element("span", "key", element("i", "rest"), "outside the selection"));
    if (data.limit) items.push(line("limit", data.limit.name));
    const reserved = this.store.reserved();
    if (reserved) items.push(line("reserved", "reserved: " + data.allocators[reserved.allocator]));
    if (this.store.switches) items.push(line("ghost", data.timelines[data.views[0].timeline].name));
    if (history.timeline.marks.some(mark => mark.kind === "step")) items.push(element("span", "key", element("i", "tri"), "optimizer step"));
    this.legend.replaceChildren(...items);
  }

  private describe(position: number): (Node | string)[] {
    const { data } = this.store, history = this.store.history(), sums = history.at(position);
    const total = sums.reduce((a, b) => a + b, 0), timeline = history.timeline;
    const lines: (Node | string)[] = [tipLine("live", bytesText(total))];
    for (const group of [...this.order].reverse()) {
      if (sums[group] <= 0) continue;
      const name = data.categories[group] ?? "outside the selection";
      lines.push(tipLine(plainName(name), bytesText(sums[group]), colour(name === "failed request" ? "bad" : group < data.categories.length ? "c-" + name : "rest")));
    }
    const when = history.hasTime() ? ` · ${secondsText(history.seconds(position))}` : "";
    lines.unshift(element("div", "tip-head", `${timeline.unit} ${countText(position)}${when}`));
    if (timeline.ops[position]) lines.push(element("div", "tip-foot", timeline.ops[position]));
    const failure = timeline.marks.find(mark => mark.kind === "failure" && mark.at === position);
    if (failure) lines.push(element("div", "tip-foot bad", failure.text));
    return lines;
  }

  private listen(): void {
    const canvas = this.canvas, store = this.store, touches = new Map<number, number>();
    let drag: { x: number; from: number; to: number; moved: boolean } | null = null;
    const point = (x: number, y: number, offset: number) => {
      this.hover = this.positionAt(offset);
      showTip(x, y, this.describe(this.hover));
      this.later();
    };
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      touches.set(event.pointerId, event.offsetX);
      drag = { x: event.clientX, from: store.range[0], to: store.range[1], moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      if (touches.size === 2 && touches.has(event.pointerId)) {
        const before = [...touches.values()];
        touches.set(event.pointerId, event.offsetX);
        const after = [...touches.values()], wide = (pair: number[]) => Math.max(12, Math.abs(pair[1] - pair[0]));
        store.zoom(this.positionAt((after[0] + after[1]) / 2), wide(before) / wide(after));
        return;
      }
      if (drag && Math.abs(event.clientX - drag.x) > 4) drag.moved = true;
      if (drag?.moved) {
        const by = (event.clientX - drag.x) / (this.width - MARGIN.left - MARGIN.right) * (drag.to - drag.from);
        hideTip();
        store.setRange(drag.from - by, drag.to - by);
      } else point(event.clientX, event.clientY, event.offsetX);
    });
    const end = (event: PointerEvent) => {
      touches.delete(event.pointerId);
      if (drag && !drag.moved && event.type === "pointerup") store.setMoment(this.positionAt(event.offsetX));
      if (!touches.size) drag = null;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("pointerleave", () => {
      this.hover = -1;
      hideTip();
      this.later();
    });
    canvas.addEventListener("dblclick", () => this.showAll());
    canvas.addEventListener("wheel", event => {
      const overAxis = event.offsetX < MARGIN.left || event.offsetY > this.height - MARGIN.bottom;
      if (!event.ctrlKey && !overAxis) return;
      event.preventDefault();
      const at = this.positionAt(Math.max(MARGIN.left, event.offsetX));
      store.zoom(at, Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.004));
    }, { passive: false });
    canvas.addEventListener("keydown", event => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    const store = this.store, [from, to] = store.range, stride = Math.max(1, Math.round((to - from) / 100));
    const actions: Record<string, () => void> = {
      ArrowLeft: () => store.setMoment(store.moment - (event.shiftKey ? 1 : stride)),
      ArrowRight: () => store.setMoment(store.moment + (event.shiftKey ? 1 : stride)),
      "+": () => store.zoom(store.moment, 0.625),
      "=": () => store.zoom(store.moment, 0.625),
      "-": () => store.zoom(store.moment, 1.6),
      Home: () => this.showAll(),
      Escape: () => this.showAll(),
      End: () => store.setMoment(store.history().peakPosition),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
