/** The records of compiler/tools/explore/document.py; times in ns, sizes in bytes. */

export const FORMAT = "flowloom-explore";
export const VERSION = 1;

export interface View {
  kind: string;
  name: string;
  allocation: number;
  offset: number;
  nbytes: number;
  dtype: string;
  shape: number[];
}

export interface Task {
  kernel: string;
  stream: number;
  subflow: number | null;
  after: number[];
  start: number;
  end: number;
  alone: number;
  measured: [number, number] | null;
  thread: number | null;
  critical: boolean;
  nodes: string[];
  reads: View[];
  writes: View[];
}

export interface Help {
  task: number;
  thread: number;
  start: number;
  end: number;
}

export interface Operator {
  type: string;
  name: string;
  task: number | null;
  reads: number[];
  inputs: string[];
  outputs: string[];
  attributes: Record<string, string>;
}

export interface Launch {
  symbol: string;
  grid: number[];
  block: number[];
  shared_bytes: number;
  registers: number;
  static_shared_bytes: number;
  programmatic: boolean;
  resident_blocks: number | null;
  occupancy: number | null;
  waves: number | null;
}

export interface Tile {
  template: string;
  config: Record<string, string>;
  warm: number;
  low: number | null;
  high: number | null;
  cold: number | null;
  device: string;
  chosen: boolean;
}

export interface Kernel {
  name: string;
  language: string;
  tasks: number;
  time: number;
  floor: number;
  measured: boolean;
  flops: number;
  traffic: number;
  flops_peak: number;
  code: number;
  reads: string[];
  writes: string[];
  packings: string[];
  workspaces: number[];
  launches: Launch[];
  template: string;
  provenance: string;
  config: Record<string, string>;
  candidates: Tile[];
  sources: Record<string, string>;
  lacking: string;
}

export interface Region {
  allocation: number;
  offset: number;
  nbytes: number;
  first: number;
  final: number;
  start: number;
  end: number;
  reuses: number[];
}

export interface Allocation {
  kind: string;
  name: string;
  dtype: string;
  shape: number[];
  nbytes: number;
}

export interface Memory {
  allocations: Allocation[];
  regions: Region[];
  steps: [number, number][];
  peak: number;
  apart: number;
}

export interface Pass {
  spec: string;
  file: string;
  same: boolean;
  text: string;
  counts: Record<string, number>;
}

export interface Candidate {
  name: string;
  predicted: number | null;
  median: number | null;
  low: number | null;
  high: number | null;
  count: number;
  note: string;
  chosen: boolean;
}

export interface Choice {
  sentence: string;
  candidates: Candidate[];
  policies: [string, number][];
  search: string;
  bound: Record<string, number>;
  tiles: string;
  facts: [string, string][];
}

export interface Layout {
  layers: number[];
  places: number[];
  edges: [number, number][];
  routes: number[][];
}

export interface Module {
  name: string;
  target: string;
  mode: string;
  makespan: number;
  bound: number;
  measured: string;
  device: { name: string; flops: number; tensor_flops: number; bandwidth: number; sms: number };
  streams: number;
  threads: number;
  helps: Help[];
  options: [string, string][];
  tasks: Task[];
  kernels: Kernel[];
  operators: Operator[];
  layout: Layout;
  memory: Memory;
  passes: Pass[];
  choice: Choice;
}

export interface Step {
  kind: "segment" | "host";
  label: string;
  nodes: string[];
  reads: string[];
  writes: string[];
  reason: string;
}

export interface Side {
  title: string;
  note: string;
  labels: string[];
  modules: Module[];
  steps: Step[];
}

export interface ExploreDocument {
  format: string;
  version: number;
  sides: Side[];
}

/** The document in the page: gzip in base64, see page.py. */
export async function readDocument(): Promise<ExploreDocument> {
  const element = document.getElementById("document");
  if (!element) throw new Error("this page has no document: write it by `flowloom explore`");
  const bytes = Uint8Array.from(atob(element.textContent ?? ""), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const found = JSON.parse(await new Response(stream).text()) as ExploreDocument;
  if (found.format !== FORMAT || found.version !== VERSION) {
    throw new Error(`the document has version ${found.version}, this page reads ${VERSION}`);
  }
  return found;
}
