// A view's history, ready to be drawn: live bytes by category at any position, and the highest moment of any range.
// Positions are walked in order from the nearest of regular marks; where a pixel covers many, from maxima of buckets.
import { PageData, Timeline, View } from "./data";

const STRIDE = 1024;

export interface Columns {
  groups: number;
  total: Float64Array;  // of each column
  parts: Float64Array;  // of each column and group
}

export class History {
  readonly timeline: Timeline;
  readonly positions: number;
  readonly groups: number;  // categories, and last what is not in the focus
  readonly bytes: Float64Array;
  readonly failure: number;  // position, -1: none
  group: Uint8Array;
  peak = 0;
  peakPosition = 0;
  focused: Uint8Array | null = null;
  private readonly order: Int32Array;  // block that begins, or the complement of one that ends
  private readonly start: Int32Array;  // first of each position in `order`
  private marks = new Float64Array(0);
  private bucketTotal = new Float64Array(0);
  private bucketParts = new Float64Array(0);

  constructor(readonly data: PageData, readonly view: View) {
    this.timeline = data.timelines[view.timeline];
    this.positions = Math.max(1, this.timeline.positions);
    this.groups = data.categories.length + 1;
    this.bytes = this.scaled();
    this.group = this.timeline.blocks.category;
    [this.order, this.start] = this.sort();
    this.failure = this.timeline.marks.find(mark => mark.kind === "failure")?.at ?? -1;
    this.profile();
  }

  private scaled(): Float64Array {
    const { bytes, affected } = this.timeline.blocks, mask = this.view.switches;
    if (!mask || !affected.some(bits => (bits & mask) !== 0)) return bytes;
    const factors = new Float64Array(256).fill(1);
    for (let bits = 0; bits < 256; bits++) {
      this.data.switches.forEach((entry, i) => { if (bits & mask & 1 << i) factors[bits] *= entry.factor; });
    }
    return bytes.map((value, i) => Math.round(value * factors[affected[i]]));
  }

  // By position, ends before begins: a counting sort.
  private sort(): [Int32Array, Int32Array] {
    const { begin, end } = this.timeline.blocks, last = this.positions;
    const ends = new Int32Array(last + 1), start = new Int32Array(last + 2);
    for (let i = 0; i < begin.length; i++) {
      start[Math.min(begin[i], last) + 1]++;
      if (end[i] < last) {
        start[end[i] + 1]++;
        ends[end[i]]++;
      }
    }
    for (let p = 0; p <= last; p++) start[p + 1] += start[p];
    const order = new Int32Array(start[last + 1]);
    const nextEnd = start.slice(0, last + 1), nextBegin = nextEnd.map((first, p) => first + ends[p]);
    for (let i = 0; i < begin.length; i++) {
      order[nextBegin[Math.min(begin[i], last)]++] = i;
      if (end[i] < last) order[nextEnd[end[i]]++] = ~i;
    }
    return [order, start];
  }

  // Colours what is under these labels by category, and all else as one group. Nothing: everything by category.
  highlight(labels: Uint8Array | null): void {
    const { category, label } = this.timeline.blocks;
    this.focused = labels;
    this.group = labels ? category.map((value, i) => labels[label[i]] ? value : this.groups - 1) : category;
    this.profile();
  }

  private profile(): void {
    const groups = this.groups, sums = new Float64Array(groups);
    const buckets = Math.ceil(this.positions / STRIDE);
    this.marks = new Float64Array(buckets * groups);
    this.bucketTotal = new Float64Array(buckets).fill(-1);
    this.bucketParts = new Float64Array(buckets * groups);
    this.peak = 0;
    let total = 0;
    for (let p = 0; p < this.positions; p++) {
      const bucket = p / STRIDE | 0;
      if (p % STRIDE === 0) this.marks.set(sums, bucket * groups);
      total += this.step(p, sums);
      if (total > this.bucketTotal[bucket]) {
        this.bucketTotal[bucket] = total;
        this.bucketParts.set(sums, bucket * groups);
      }
      if (total > this.peak) {
        this.peak = total;
        this.peakPosition = p;
      }
    }
    if (this.failure >= 0) this.peakPosition = Math.min(this.failure, this.positions - 1);
  }

  private step(position: number, sums: Float64Array): number {
    let change = 0;
    for (let i = this.start[position]; i < this.start[position + 1]; i++) {
      const entry = this.order[i], block = entry < 0 ? ~entry : entry;
      const bytes = entry < 0 ? -this.bytes[block] : this.bytes[block];
      sums[this.group[block]] += bytes;
      change += bytes;
    }
    return change;
  }

  // Of each column, which begins at edges[c] and ends before edges[c + 1], its highest moment. A column without a
  // position shows the one before.
  columns(edges: Float64Array): Columns {
    const groups = this.groups, width = edges.length - 1;
    const made = { groups, total: new Float64Array(width).fill(-1), parts: new Float64Array(width * groups) };
    const from = Math.max(0, Math.floor(edges[0])), to = Math.min(this.positions, Math.ceil(edges[width]));
    if ((to - from) / width >= STRIDE / 2) this.fillFromBuckets(edges, made, from, to);
    else this.fillFromSteps(edges, made, from, to);
    for (let c = 1; c < width; c++) {
      if (made.total[c] >= 0) continue;
      made.total[c] = made.total[c - 1];
      made.parts.copyWithin(c * groups, (c - 1) * groups, c * groups);
    }
    return made;
  }

  private put(made: Columns, column: number, total: number, parts: Float64Array): void {
    if (total <= made.total[column]) return;
    made.total[column] = total;
    made.parts.set(parts, column * made.groups);
  }

  private fillFromBuckets(edges: Float64Array, made: Columns, from: number, to: number): void {
    let column = 0;
    for (let b = from / STRIDE | 0; b * STRIDE < to; b++) {
      while (column < made.total.length - 1 && edges[column + 1] <= b * STRIDE) column++;
      this.put(made, column, this.bucketTotal[b], this.bucketParts.subarray(b * this.groups, (b + 1) * this.groups));
    }
  }

  private fillFromSteps(edges: Float64Array, made: Columns, from: number, to: number): void {
    const sums = this.marks.slice((from / STRIDE | 0) * this.groups, ((from / STRIDE | 0) + 1) * this.groups);
    let total = sums.reduce((a, b) => a + b, 0), column = 0;
    for (let p = (from / STRIDE | 0) * STRIDE; p < to; p++) {
      total += this.step(p, sums);
      if (p < from) continue;
      while (column < made.total.length - 1 && edges[column + 1] <= p) column++;
      this.put(made, column, total, sums);
    }
  }

  // Live bytes at a position, by group.
  at(position: number): Float64Array {
    const mark = position / STRIDE | 0, sums = this.marks.slice(mark * this.groups, (mark + 1) * this.groups);
    for (let p = mark * STRIDE; p <= position; p++) this.step(p, sums);
    return sums;
  }

  // The blocks that are alive at a position.
  alive(position: number): number[] {
    const { begin, end } = this.timeline.blocks, found: number[] = [];
    for (let i = 0; i < begin.length; i++) if (begin[i] <= position && position < end[i] && this.bytes[i] > 0) found.push(i);
    return found;
  }

  seconds(position: number): number {
    const seconds = this.timeline.seconds;
    return seconds.length ? seconds[Math.max(0, Math.min(seconds.length - 1, Math.floor(position)))] : 0;
  }
  hasTime(): boolean {
    const seconds = this.timeline.seconds;
    return seconds.length > 1 && seconds[seconds.length - 1] > seconds[0];
  }
  // The last position that begins at or before a time.
  positionAt(time: number): number {
    const seconds = this.timeline.seconds;
    let low = 0, high = this.positions;
    while (high - low > 1) {
      const middle = low + high >> 1;
      if (seconds[middle] <= time) low = middle;
      else high = middle;
    }
    return low;
  }
}
