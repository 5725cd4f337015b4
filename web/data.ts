// The page's data, as docs/page-format.md has it: JSON in a script element, arrays of numbers in base64.
export interface Figure { name: string; value_bytes: number; note: string }
export interface Card { action: string; setting: string; saves_bytes: number | null; cost: string }
export interface Mark { kind: string; at: number; text: string }
export interface Switch { id: string; name: string; note: string; factor: number }
export interface Reserved { allocator: number; peak_bytes: number; at: Int32Array; bytes: Float64Array }
export interface View {
  switches: number; timeline: number; peak_bytes: number; seconds: number; note: string; reserved: Reserved[];
}
export interface Blocks {
  bytes: Float64Array; begin: Int32Array; end: Int32Array; label: Uint32Array; category: Uint8Array;
  affected: Uint8Array; address: Float64Array;
}
export interface Ranges { address: Float64Array; bytes: Float64Array; begin: Int32Array; end: Int32Array }
export interface Edges { from: Int32Array; to: Int32Array; bytes: Float64Array; label: Uint32Array }
export interface Timeline {
  name: string; unit: string; positions: number; seconds: Float32Array; blocks: Blocks; ranges: Ranges;
  marks: Mark[]; ops: string[]; edges: Edges;
}
export interface Part { name: string; part_bytes: number }
export interface Account { name: string; total_bytes: number; parts: Part[] }
export interface Diagnosis {
  cause: string; confidence: string; headline: string; device: string; rank: string; place: string; line: number;
  occurrences: number; message: string; accounts: Account[];
  facts: { fact: string; value_bytes: number | null }[];
  culprits: { place: string; innermost: string; module?: string; category: string; blocks: number; held_bytes: number }[];
  counterfactuals: { name: string; needs_bytes: number; note: string }[];
  remedies: { action: string; setting: string; saves_bytes: number | null; time_cost: string }[];
  no_remedy?: string | null;
}
export interface PageData {
  schema: number; verb: string; title: string;
  verdict: { tone: string; label: string; headline: string; chips: string[] };
  figures: Figure[]; limit: Figure | null; cards_title: string; cards: Card[]; diagnoses: Diagnosis[];
  recording_snippet: string | null; notes: string[];
  categories: string[]; frames: string[]; frameKinds: Uint8Array;
  labelPlace: Uint32Array; labelPath: Uint32Array; labelStart: Uint32Array;
  timelines: Timeline[]; switches: Switch[]; allocators: string[]; views: View[];
}

type Numbers = Uint8Array | Uint32Array | Int32Array | Float32Array | Float64Array;
function decode<T extends Numbers>(text: string, make: new (buffer: ArrayBuffer) => T): T {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new make(bytes.buffer);
}

/* eslint-disable-next-line */
type Json = any;

function blocksOf(json: Json): Blocks {
  return {
    bytes: decode(json.bytes, Float64Array), begin: decode(json.begin, Int32Array), end: decode(json.end, Int32Array),
    label: decode(json.label, Uint32Array), category: decode(json.category, Uint8Array),
    affected: decode(json.affected, Uint8Array), address: decode(json.address, Float64Array),
  };
}

function timelineOf(json: Json): Timeline {
  const ranges = json.ranges, edges = json.edges;
  return {
    ...json, seconds: decode(json.seconds, Float32Array), blocks: blocksOf(json.blocks),
    ranges: {
      address: decode(ranges.address, Float64Array), bytes: decode(ranges.bytes, Float64Array),
      begin: decode(ranges.begin, Int32Array), end: decode(ranges.end, Int32Array),
    },
    edges: {
      from: decode(edges.from, Int32Array), to: decode(edges.to, Int32Array),
      bytes: decode(edges.bytes, Float64Array), label: decode(edges.label, Uint32Array),
    },
  };
}

function viewOf(json: Json): View {
  const reserved = json.reserved.map((line: Json) =>
    ({ ...line, at: decode(line.at, Int32Array), bytes: decode(line.bytes, Float64Array) }));
  return { ...json, reserved };
}

export function readData(): PageData {
  const json: Json = JSON.parse(document.getElementById("data")!.textContent!);
  return {
    ...json,
    frameKinds: decode(json.frame_kinds, Uint8Array),
    labelPlace: decode(json.labels.place, Uint32Array),
    labelPath: decode(json.labels.path, Uint32Array),
    labelStart: decode(json.labels.path_start, Uint32Array),
    timelines: json.timelines.map(timelineOf),
    views: json.views.map(viewOf),
  };
}
