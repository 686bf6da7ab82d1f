/** The rows of the timelines and the bars in them: of streams, or of the CPU's threads. */
import type { Module } from "./document";

/** A task's time in a row; one that `helps` is a thread's share of a task that another thread runs. */
export interface Bar {
  task: number;
  from: number;
  to: number;
  helps: boolean;
}

export interface Lane {
  title: string;
  kind: "stream" | "thread";
  rows: Bar[][];
  /** The bar of each task itself; null where nothing was measured. */
  bars: (Bar | null)[];
  /** The row of each task's own bar. */
  rowOf: (task: number) => number;
}

/** The predicted timeline, and the measured one where there is one. */
export function lanes(module: Module): Lane[] {
  const streamOf = (task: number) => module.tasks[task].stream;
  const spans = module.tasks.map((each): [number, number] => [each.start, each.end]);
  const found = [lane("predicted", "stream", module.streams, spans, streamOf, [])];
  if (!module.tasks.some((each) => each.measured)) return found;
  const measured = module.tasks.map((each) => each.measured);
  if (!module.threads) return [...found, lane("measured", "stream", module.streams, measured, streamOf, [])];
  const threadOf = (task: number) => module.tasks[task].thread ?? 0;
  const helps = module.helps.map((each) => ({
    row: each.thread,
    bar: { task: each.task, from: each.start, to: each.end, helps: true },
  }));
  return [...found, lane("measured", "thread", module.threads, measured, threadOf, helps)];
}

function lane(
  title: string,
  kind: Lane["kind"],
  count: number,
  spans: ([number, number] | null)[],
  rowOf: Lane["rowOf"],
  helps: { row: number; bar: Bar }[],
): Lane {
  const bars = spans.map((span, task) => span && { task, from: span[0], to: span[1], helps: false });
  const rows: Bar[][] = Array.from({ length: count }, () => []);
  bars.forEach((bar, task) => bar && rows[rowOf(task)].push(bar));
  for (const { row, bar } of helps) rows[row].push(bar);
  for (const row of rows) row.sort((a, b) => a.from - b.from);
  return { title, kind, rows, bars, rowOf };
}
