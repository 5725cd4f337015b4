#include "plimsoll/report/page_template.h"

namespace plimsoll::report {

const char* const kPageTemplate = R"page(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plimsoll: why memory ran out</title>
<style>
:root { --ink: #1d2433; --soft: #667085; --line: #d9dee8; --paper: #ffffff; --back: #f5f7fa; --bad: #b42318; --good: #067647; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f0; --soft: #98a2b3; --line: #333c4d; --paper: #171c26; --back: #0f131a; --bad: #f97066; --good: #47cd89; }
}
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); }
main { max-width: 1180px; margin: 0 auto; padding: 24px; }
h1 { font-size: 15px; color: var(--soft); font-weight: 500; margin: 0 0 16px; overflow-wrap: anywhere; }
h2 { font-size: 13px; margin: 20px 0 6px; color: var(--soft); text-transform: uppercase; letter-spacing: .04em; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 16px 20px; margin-bottom: 16px; }
.cause { font-size: 20px; font-weight: 650; color: var(--bad); }
.cause.healthy { color: var(--good); }
.headline { font-size: 16px; margin: 4px 0 0; }
.soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; }
td { padding: 2px 12px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; width: 1%; }
.bar { height: 10px; border-radius: 2px; background: #4e79a7; min-width: 1px; }
code { background: var(--back); padding: 1px 5px; border-radius: 4px; }
canvas { width: 100%; display: block; cursor: crosshair; }
#live { height: 320px; }
table.account td:nth-child(2) { width: 260px; }
button { font: inherit; color: inherit; background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: 3px 10px; cursor: pointer; }
button[aria-pressed=true] { background: var(--ink); color: var(--paper); }
#legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0; font-size: 13px; }
#legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
#tip { position: fixed; pointer-events: none; background: var(--ink); color: var(--paper); font-size: 12px; padding: 8px 10px;
       border-radius: 6px; max-width: 520px; white-space: pre-wrap; display: none; z-index: 9; }
</style>
</head>
<body>
<main>
<h1 id="source"></h1>
<div id="diagnoses"></div>
<section id="timeline" hidden>
  <h2>Live bytes over the history</h2>
  <p class="soft">Each allocation and free is one step to the right. Wheel: zoom. Drag: move. Double click: all.
    Colour by <button id="by-category" aria-pressed="true">category</button> <button id="by-stack" aria-pressed="false">place</button></p>
  <canvas id="live"></canvas>
  <div id="legend"></div>
</section>
<section id="segments" hidden>
  <h2>Segments of the allocator at the end</h2>
  <p class="soft">One row per segment, to scale, coloured by place; pale is free. Hover for the stack.</p>
  <canvas id="map"></canvas>
</section>
</main>
<div id="tip"></div>
<script type="application/json" id="explanation-data">@EXPLANATION@</script>
<script type="application/json" id="history-data">@HISTORY@</script>
<script>
"use strict";
const explanation = JSON.parse(document.getElementById("explanation-data").textContent);
const history_ = JSON.parse(document.getElementById("history-data").textContent);
const palette = ["#9aa4b2", "#4e79a7", "#e15759", "#b07aa1", "#f28e2b", "#59a14f", "#edc948", "#76b7b2", "#ff9da7", "#9c755f", "#17becf", "#8c6bb1"];
const $ = id => document.getElementById(id);

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1023.995 && unit < 4) { bytes /= 1024; unit++; }
  return (unit ? bytes.toFixed(2) : bytes) + " " + units[unit];
}
function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
function row(table, cells) {
  const line = table.appendChild(element("tr"));
  for (const cell of cells) {
    const td = line.appendChild(element("td", typeof cell === "number" ? "number" : ""));
    if (cell instanceof Node) td.appendChild(cell); else td.textContent = typeof cell === "number" ? bytesText(cell) : cell;
  }
}

// The diagnoses.
function accountTable(account) {
  const table = element("table", "account");
  for (const part of [...account.parts].sort((a, b) => b.part_bytes - a.part_bytes)) {
    const bar = element("div", "bar");
    bar.style.width = (account.total_bytes ? 100 * part.part_bytes / account.total_bytes : 0) + "%";
    row(table, [part.part_bytes, part.name, bar]);
  }
  return table;
}
function showDiagnosis(diagnosis) {
  const section = element("section");
  section.append(element("div", "cause " + diagnosis.cause, diagnosis.cause.replaceAll("_", " ")));
  section.append(element("p", "headline", diagnosis.headline));
  const where = [diagnosis.confidence + " confidence", diagnosis.device && "device " + diagnosis.device, diagnosis.rank,
                 diagnosis.line ? "line " + diagnosis.line : "", diagnosis.place].filter(Boolean);
  section.append(element("div", "soft", where.join(" · ")));
  for (const account of diagnosis.accounts) {
    section.append(element("h2", "", account.name + ": " + bytesText(account.total_bytes)), accountTable(account));
  }
  const list = (title, items, cells) => {
    if (!items.length) return;
    const table = element("table");
    for (const item of items) row(table, cells(item));
    section.append(element("h2", "", title), table);
  };
  list("Facts", diagnosis.facts, fact => [fact.value_bytes ?? "", fact.fact]);
  list("Who holds it", diagnosis.culprits, c => [c.held_bytes, c.category, c.blocks + " ×", c.place + (c.innermost && c.innermost !== c.place ? "  ← " + c.innermost : "")]);
  list("The same history would have needed", diagnosis.counterfactuals, c => [c.needs_bytes, c.name, c.note]);
  list("What would help", diagnosis.remedies, r => {
    const what = element("div");
    what.append(r.action + " (costs: " + r.time_cost + ")");
    if (r.setting) what.append(element("br"), element("code", "", r.setting));
    return [r.saves_bytes ?? "", what];
  });
  $("diagnoses").append(section);
}
$("source").textContent = explanation.source;
explanation.diagnoses.slice(0, 50).forEach(showDiagnosis);
for (const note of explanation.notes) $("diagnoses").append(element("section", "soft", note));

// The history.
function decode(text, Type) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Type(bytes.buffer);
}
function fit(canvas) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}
const tip = $("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.style.display = text ? "block" : "none";
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}
for (const canvas of document.querySelectorAll("canvas")) canvas.addEventListener("mouseleave", () => tip.style.display = "none");
const stackText = n => history_.stacks[n].place + "\n" + history_.stacks[n].frames.join("\n");

class Live {
  constructor(data) {
    this.bytes = decode(data.bytes, Float64Array);
    this.stack = decode(data.stack, Uint32Array);
    this.category = decode(data.category, Uint8Array);
    this.operations = decode(data.operations, Int32Array);
    this.seconds = decode(data.seconds, Float32Array);
    this.count = this.operations.length;
    this.home = Math.min(data.first, Math.max(0, this.count - 1));
    this.range = [this.home, this.count];
    this.placeGroups = this.largestPlaces();
    this.colourBy("category");
  }
  // The places whose blocks were most bytes in all get a colour each; the rest share one.
  largestPlaces() {
    const sums = new Float64Array(history_.stacks.length);
    for (let i = 0; i < this.bytes.length; i++) sums[this.stack[i]] += this.bytes[i];
    const order = [...sums.keys()].sort((a, b) => sums[b] - sums[a]).slice(0, 11);
    const groups = new Uint8Array(history_.stacks.length).fill(order.length);
    order.forEach((stack, group) => groups[stack] = group);
    return { groups, names: [...order.map(n => history_.stacks[n].place + (history_.stacks[n].frames.length ? "  ← " + history_.stacks[n].frames[0] : "")), "all other places"] };
  }
  colourBy(mode) {
    const byCategory = mode === "category";
    this.names = byCategory ? history_.categories : this.placeGroups.names;
    this.group = byCategory ? this.category : Uint8Array.from(this.stack, stack => this.placeGroups.groups[stack]);
    this.profile();
  }
  // Sums by group at regular marks, so that any range can be drawn without a pass over all that lies before it.
  profile() {
    const groups = this.names.length, sums = new Float64Array(groups);
    this.stride = 4096;
    this.marks = new Float64Array((Math.floor(this.count / this.stride) + 1) * groups);
    this.peak = 0;
    let total = 0;
    for (let i = 0; i < this.count; i++) {
      if (i % this.stride === 0) this.marks.set(sums, i / this.stride * groups);
      total += this.apply(i, sums);
      if (total > this.peak) this.peak = total;
    }
  }
  apply(i, sums) {
    const operation = this.operations[i], life = operation < 0 ? ~operation : operation;
    const change = operation < 0 ? -this.bytes[life] : this.bytes[life];
    sums[this.group[life]] += change;
    return change;
  }
  // Calls visit(i, sums, total) after each operation of [from, to).
  sweep(from, to, visit) {
    const groups = this.names.length, mark = Math.floor(from / this.stride);
    const sums = this.marks.slice(mark * groups, (mark + 1) * groups);
    let total = sums.reduce((a, b) => a + b, 0);
    for (let i = mark * this.stride; i < to; i++) {
      total += this.apply(i, sums);
      if (i >= from) visit(i, sums, total);
    }
  }
  // Per pixel column the composition at its highest moment.
  columns(width) {
    const [from, to] = this.range, groups = this.names.length;
    const tallest = new Float64Array(width).fill(-1), parts = new Float64Array(width * groups);
    this.sweep(from, to, (i, sums, total) => {
      const column = Math.min(width - 1, Math.floor((i - from) / (to - from) * width));
      if (total <= tallest[column]) return;
      tallest[column] = total;
      parts.set(sums, column * groups);
    });
    for (let x = 1; x < width; x++) {  // more pixels than operations: hold the last value
      if (tallest[x] >= 0) continue;
      tallest[x] = tallest[x - 1];
      parts.copyWithin(x * groups, (x - 1) * groups, x * groups);
    }
    return { tallest, parts };
  }
  draw() {
    const started = performance.now();
    const [context, width, height] = fit($("live")), groups = this.names.length;
    this.drawn = this.columns(width);
    this.scale = (height - 18) / Math.max(1, this.peak);
    for (let x = 0; x < width; x++) {
      let y = height;
      for (let g = 0; g < groups; g++) {
        const tall = this.drawn.parts[x * groups + g] * this.scale;
        if (tall <= 0) continue;
        context.fillStyle = palette[g % palette.length];
        context.fillRect(x, y - tall, 1, tall);
        y -= tall;
      }
    }
    context.fillStyle = getComputedStyle(document.body).color;
    context.fillText("peak " + bytesText(this.peak), 4, 12);
    this.legend();
    document.body.dataset.drawMs = (performance.now() - started).toFixed(1);
  }
  legend() {
    $("legend").replaceChildren(...this.names.map((name, g) => {
      const entry = element("span"), swatch = element("i");
      swatch.style.background = palette[g % palette.length];
      entry.append(swatch, name);
      return entry;
    }));
  }
  // What lies under the pointer: the group, and its largest live blocks at that moment.
  describe(x, y) {
    const width = $("live").clientWidth, height = $("live").clientHeight, groups = this.names.length;
    const [from, to] = this.range, moment = Math.min(to - 1, from + Math.floor((x + 1) / width * (to - from)));
    let base = height, group = -1;
    for (let g = 0; g < groups && group < 0; g++) {
      const tall = this.drawn.parts[x * groups + g] * this.scale;
      if (tall > 0 && y <= base && y > base - tall) group = g;
      base -= tall;
    }
    const alive = new Map();
    for (let i = 0; i <= moment; i++) {
      const operation = this.operations[i];
      if (operation < 0) alive.delete(~operation);
      else if (group < 0 || this.group[operation] === group) alive.set(operation, true);
    }
    const top = [...alive.keys()].sort((a, b) => this.bytes[b] - this.bytes[a]).slice(0, 1);
    let text = bytesText(this.drawn.tallest[x]) + " live at operation " + moment + ", " + this.seconds[moment].toFixed(3) + " s";
    if (group >= 0) text += "\n" + this.names[group] + ": " + bytesText(this.drawn.parts[x * groups + group]);
    for (const life of top) text += "\n\nlargest: " + bytesText(this.bytes[life]) + "\n" + stackText(this.stack[life]);
    return text;
  }
  zoom(x, factor) {
    const [from, to] = this.range, at = from + (to - from) * x / $("live").clientWidth;
    const span = Math.max(16, Math.min(this.count, (to - from) * factor));
    this.moveTo(at - (at - from) * span / (to - from), span);
  }
  moveTo(from, span) {
    from = Math.max(0, Math.min(this.count - span, from));
    this.range = [Math.floor(from), Math.min(this.count, Math.ceil(from + span))];
    this.later();
  }
  later() {
    if (!this.waiting) requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    this.waiting = true;
  }
}

function wire(live) {
  const canvas = $("live");
  let drag = null, hover = null;
  canvas.addEventListener("wheel", event => { event.preventDefault(); live.zoom(event.offsetX, event.deltaY > 0 ? 1.25 : 0.8); }, { passive: false });
  canvas.addEventListener("mousedown", event => drag = { x: event.clientX, range: live.range });
  addEventListener("mouseup", () => drag = null);
  canvas.addEventListener("dblclick", () => { live.range = [live.home, live.count]; live.later(); });
  canvas.addEventListener("mousemove", event => {
    if (drag) {
      const span = drag.range[1] - drag.range[0];
      return live.moveTo(drag.range[0] - (event.clientX - drag.x) / canvas.clientWidth * span, span);
    }
    if (!hover) requestAnimationFrame(() => { showTip(hover, live.describe(hover.offsetX, hover.offsetY)); hover = null; });
    hover = event;
  });
  for (const mode of ["category", "stack"]) {
    $("by-" + mode).addEventListener("click", () => {
      for (const other of ["category", "stack"]) $("by-" + other).setAttribute("aria-pressed", other === mode);
      live.colourBy(mode);
      live.draw();
    });
  }
}

class SegmentMap {
  constructor(data, groupOf) {
    this.segmentBytes = decode(data.segment_bytes, Float64Array);
    this.blockCount = decode(data.block_count, Uint32Array);
    this.bytes = decode(data.bytes, Float64Array);
    this.stack = decode(data.stack, Uint32Array);
    this.state = decode(data.state, Uint8Array);
    this.groupOf = groupOf;
    this.rows = Math.min(this.segmentBytes.length, 400);
    const first = [];
    this.blockCount.reduce((sum, count, i) => (first[i] = sum, sum + count), 0);
    const order = [...this.segmentBytes.keys()].sort((a, b) => this.segmentBytes[b] - this.segmentBytes[a]).slice(0, this.rows);
    this.order = order.map(segment => ({ segment, first: first[segment] }));
    $("map").style.height = this.rows * 10 + "px";
  }
  each(width, visit) {
    const widest = this.order.length ? this.segmentBytes[this.order[0].segment] : 1;
    this.order.forEach(({ segment, first }, row) => {
      let x = 0;
      for (let b = first; b < first + this.blockCount[segment]; b++) {
        const wide = this.bytes[b] / widest * width;
        visit(b, x, row * 10, wide, segment);
        x += wide;
      }
    });
  }
  draw() {
    const [context, width] = fit($("map"));
    this.each(width, (block, x, y, wide) => {
      const free = this.state[block] === 2;
      context.globalAlpha = free ? 0.18 : 1;
      context.fillStyle = free ? "#888" : palette[this.groupOf(this.stack[block]) % palette.length];
      context.fillRect(x, y, Math.max(0.5, wide - 0.5), 9);
    });
    context.globalAlpha = 1;
  }
  describe(px, py) {
    let text = "";
    this.each($("map").clientWidth, (block, x, y, wide, segment) => {
      if (px < x || px >= x + wide || py < y || py >= y + 10) return;
      const state = ["live", "waiting to be freed", "free"][this.state[block]];
      text = bytesText(this.bytes[block]) + " " + state + " in a segment of " + bytesText(this.segmentBytes[segment]) +
             (this.state[block] === 2 ? "" : "\n" + stackText(this.stack[block]));
    });
    return text;
  }
}

if (history_) {
  $("timeline").hidden = false;
  const live = new Live(history_.timeline);
  live.draw();
  wire(live);
  $("segments").hidden = history_.segments.segment_bytes === "";
  const map = new SegmentMap(history_.segments, stack => live.placeGroups.groups[stack]);
  map.draw();
  $("map").addEventListener("mousemove", event => showTip(event, map.describe(event.offsetX, event.offsetY)));
  addEventListener("resize", () => { live.draw(); map.draw(); });
  document.body.dataset.peakBytes = live.peak;
  document.body.dataset.operations = live.count;
}
document.body.dataset.ready = "yes";
</script>
</body>
</html>
)page";

}  // namespace plimsoll::report
