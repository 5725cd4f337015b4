// The largest tensors at the chosen moment, equal ones as one row; search looks at places and whole stacks.
import { button, bytesText, countText, element, plainName } from "./format";
import { Store, shownPath } from "./store";
import { colour } from "./theme";

interface Row { block: number; count: number; bytes: number; text: string }

const STEP = 25;

// "train.py:42 › modeling_gpt2.py:608 › 305": lines from the outermost in, a file named once for lines in a row.
function wayText(frames: string[]): string {
  let before = "";
  return frames.map(frame => {
    const line = frame.split(" in ")[0], colon = line.lastIndexOf(":"), file = line.slice(0, Math.max(0, colon));
    const short = colon > 0 && file === before ? line.slice(colon + 1) : line;
    before = file;
    return short;
  }).join(" › ");
}

export class TensorTable {
  readonly root = element("div", "tensors");
  private readonly search = element("input", "search");
  private readonly body = element("tbody");
  private readonly more = button("show more", "tool more", () => { this.limit += 4 * STEP; this.fill(); });
  private readonly said = element("span", "said");
  private rows: Row[] = [];
  private limit = STEP;
  private byEach = false;
  private inView = false;
  private stale = true;

  constructor(private readonly store: Store) {
    this.search.type = "search";
    this.search.id = "search";
    this.search.placeholder = "search places, modules, lines  ( / )";
    this.search.setAttribute("aria-label", "search tensors");
    this.search.addEventListener("input", () => {
      this.limit = STEP;
      this.fill();
    });
    const table = element("table", "grid", this.head(), this.body);
    this.root.append(element("div", "bar-row", this.search, this.said), element("div", "scroll", table), this.more);
    store.listen(change => { if (change !== "range") this.refresh(); });
    new IntersectionObserver(entries => {
      this.inView = entries[entries.length - 1].isIntersecting;
      if (this.inView && this.stale) this.draw();
    }, { rootMargin: "400px" }).observe(this.root);
  }

  private head(): HTMLElement {
    const row = element("tr"), sorted: HTMLButtonElement[] = [];
    const sortable = (text: string, byEach: boolean) => {
      const one = button(text, "sort", () => {
        this.byEach = byEach;
        sorted.forEach((other, i) => other.setAttribute("aria-pressed", String((i === 1) === byEach)));
        this.order();
        this.fill();
      }, "sort by " + text);
      one.setAttribute("aria-pressed", String(byEach === this.byEach));
      sorted.push(one);
      return element("th", "number", one);
    };
    row.append(sortable("in all", false), sortable("each", true), element("th", "number", "count"), element("th", "", "what"),
      element("th", "", "where"), element("th", "number", "alive"));
    return element("thead", "", row);
  }

  focusSearch(): void {
    this.search.focus();
    this.search.scrollIntoView({ block: "center" });
  }

  refresh(): void {
    this.stale = true;
    if (this.inView || this.store.drawsAll) this.draw();
  }

  draw(): void {
    this.stale = false;
    const { data } = this.store, history = this.store.history(), blocks = history.timeline.blocks;
    const found = new Map<string, Row>();
    for (const block of history.alive(this.store.moment)) {
      if (history.focused && !history.focused[blocks.label[block]]) continue;
      const key = `${blocks.label[block]} ${blocks.category[block]} ${history.bytes[block]}`, row = found.get(key);
      if (row) {
        row.count++;
        row.bytes += history.bytes[block];
      } else found.set(key, { block, count: 1, bytes: history.bytes[block], text: "" });
    }
    this.rows = [...found.values()];
    for (const row of this.rows) {
      const label = blocks.label[row.block], path = shownPath(data, label, true).map(frame => data.frames[frame]);
      row.text = [data.frames[data.labelPlace[label]], ...path, plainName(data.categories[blocks.category[row.block]])].join(" ").toLowerCase();
    }
    this.order();
    this.fill();
  }

  private order(): void {
    const bytes = this.store.history().bytes;
    this.rows.sort((a, b) => this.byEach ? bytes[b.block] - bytes[a.block] : b.bytes - a.bytes);
  }

  private fill(): void {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.rows.filter(row => words.every(word => row.text.includes(word)));
    const bytes = found.reduce((sum, row) => sum + row.bytes, 0);
    this.said.textContent = `${countText(found.reduce((sum, row) => sum + row.count, 0))} tensors, ${bytesText(bytes)}`;
    this.body.replaceChildren(...found.slice(0, this.limit).map(row => this.line(row)));
    this.more.hidden = found.length <= this.limit;
  }

  private line(row: Row): HTMLElement {
    const { data } = this.store, history = this.store.history(), blocks = history.timeline.blocks;
    const label = blocks.label[row.block], category = data.categories[blocks.category[row.block]];
    const path = shownPath(data, label, false), texts = path.map(frame => data.frames[frame]);
    const where = element("td", "where", button(texts[texts.length - 1], "link", () => this.store.setFocus(path),
      "show it in the flame graph and the timeline"));
    if (history.timeline.unit === "event" && texts.length > 1) where.append(element("small", "", wayText(texts.slice(0, -1))));
    const dot = element("i", "dot");
    dot.style.background = category === "failed request" ? colour("bad") : colour("c-" + category);
    const until = blocks.end[row.block] >= history.positions ? "end" : countText(blocks.end[row.block]);
    return element("tr", "", element("td", "number strong", bytesText(row.bytes)),
      element("td", "number", bytesText(history.bytes[row.block])), element("td", "number", row.count > 1 ? countText(row.count) + " ×" : ""),
      element("td", "what", dot, plainName(category)), where,
      element("td", "number soft", row.count > 1 ? "" : `${countText(blocks.begin[row.block])} – ${until}`));
  }
}
