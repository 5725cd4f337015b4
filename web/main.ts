// The page: reads the data that stands in it and builds what there is to show.
import { cards, details, others, recording, verdict } from "./cards";
import { PageData, readData } from "./data";
import { FlameGraph } from "./flame";
import { button, element, section, svg } from "./format";
import { GraphView } from "./graph";
import { legendOf } from "./legend";
import { SegmentMap } from "./segments";
import { Store } from "./store";
import { TensorTable } from "./table";
import { watchTheme } from "./theme";
import { TimelineChart } from "./timeline";
import { placeTip } from "./tip";
import { WhatIf } from "./whatif";

// The mark on a ship's hull: a ring and the line that the water must not cross.
function logo(): SVGElement {
  const made = svg("svg", { viewBox: "0 0 32 24", class: "logo", "aria-hidden": "true" });
  made.append(svg("circle", { cx: 16, cy: 12, r: 9, fill: "none", "stroke-width": 3 }),
    svg("path", { d: "M1 12h30", "stroke-width": 3, fill: "none" }));
  return made;
}

function header(data: PageData, toggle: () => void): HTMLElement {
  const what = { explain: "why memory ran out", estimate: "what a step takes", plan: "a step within a budget", train: "a training run" };
  const title = element("div", "title", element("b", "", data.title), element("span", "", what[data.verb as keyof typeof what] ?? data.verb));
  const made = element("header", "top");
  const brand = element("span", "brand", "Plimsoll");
  brand.prepend(logo());
  made.append(brand, title, button("◐", "tool theme", toggle, "light or dark (t)"), button("print", "tool", () => print()));
  return made;
}

function history(data: PageData, main: HTMLElement): Store {
  const store = new Store(data);
  const chart = new TimelineChart(store), unit = store.history().timeline.unit;
  const live = section("timeline", "Memory over time");
  live.append(new WhatIf(store).root, chart.root);
  main.append(live);
  const remedies = cards(data);
  if (remedies) main.append(remedies);
  const flame = section("flame", unit === "op" ? "By module" : "By module and line",
    "Everything alive at the chosen moment, outermost first, as wide as its bytes. Click a box to see it alone, here and in the timeline.");
  flame.append(new FlameGraph(store).root, legendOf(store, "a box has the colour of what is most in it"));
  main.append(flame);
  if (store.history().timeline.edges.to.length) {
    const graph = section("graph", "The graph",
      "Around the op of the chosen moment: what it reads, who reads what it makes, and two steps further. Click an op to go there.");
    graph.append(new GraphView(store).root);
    main.append(graph);
  }
  if (store.history().timeline.blocks.address.length && store.history().timeline.ranges.bytes.length) {
    const map = section("segments", unit === "op" ? "The arena" : "Segments of the allocator",
      "To scale, in the order of addresses; hatched is free. Move the slider through time.");
    map.append(new SegmentMap(store).root, legendOf(store, "", true));
    main.append(map);
  }
  const table = new TensorTable(store), tensors = section("tensors", "Largest tensors", "Alive at the chosen moment; equal ones are one row.");
  tensors.append(table.root);
  main.append(tensors);
  addEventListener("keydown", event => {
    const typing = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !typing) {
      event.preventDefault();
      table.focusSearch();
    }
  });
  return store;
}

function build(): void {
  const data = readData();
  document.title = `${data.verdict.label}: ${data.title} · Plimsoll`;
  let store: Store | null = null;
  addEventListener("beforeprint", () => { if (store) store.drawsAll = true; });
  const theme = watchTheme(() => store?.tell("theme"));
  const main = element("main");
  document.body.append(header(data, theme.toggle), main);
  placeTip(document.body);
  main.append(verdict(data));
  if (data.views.length) store = history(data, main);
  else {
    const remedies = cards(data);
    if (remedies) main.append(remedies);
    const snippet = recording(data);
    if (snippet) main.append(snippet);
  }
  if (data.diagnoses.length) {
    const made = section("details", "The figures");
    made.append(details(data.diagnoses[0]));
    main.append(made);
  }
  const rest = others(data);
  if (rest) main.append(rest);
  if (data.notes.length) main.append(element("section", "panel notes", ...data.notes.map(note => element("p", "", note))));
  main.append(element("footer", "", "Made by plimsoll " + data.verb + ". This file is complete: it asks no network for anything."));
  addEventListener("keydown", event => {
    if (event.key === "t" && !(event.target instanceof HTMLInputElement) && !event.ctrlKey && !event.metaKey) theme.toggle();
  });
  document.body.dataset.ready = "yes";
}

build();
