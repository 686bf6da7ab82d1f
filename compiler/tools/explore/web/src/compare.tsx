/** Two modules: what differs, and what it costs. */
import { useMemo } from "preact/hooks";
import type { ComponentChildren } from "preact";
import type { Kernel, Module } from "./document";
import { bytes, count, micros, time } from "./format";
import { labels } from "./labels";
import { measuredRun, ranHere, spent } from "./spent";
import { useShared } from "./state";

const MOST_ROWS = 60;

interface Figure {
  name: string;
  values: [number, number];
  text: (value: number) => string;
}

const of = (module: Module, kind: string) =>
  module.memory.allocations.filter((a) => a.kind === kind).reduce((sum, a) => sum + a.nbytes, 0);

const waits = (module: Module) => module.tasks.reduce((sum, task) => sum + task.after.length, 0);

/** Whether both have measured times, which are compared then instead of estimates. */
const ran = (a: Module, b: Module) => ranHere(a) && ranHere(b);

type Known = [string, (module: Module) => number, (value: number) => string];
const RUN: Known = ["measured run", (m) => measuredRun(m) ?? 0, time];
const FIGURES: Known[] = [
  ["predicted run", (m) => m.makespan, time],
  ["predicted bound", (m) => m.bound, time],
  ["time of all kernels alone", (m) => m.kernels.reduce((sum, k) => sum + k.time, 0), time],
  ["tasks", (m) => m.tasks.length, count],
  ["kernels", (m) => m.kernels.length, count],
  ["streams", (m) => m.streams, count],
  ["waits", waits, count],
  ["arena", (m) => of(m, "arena"), bytes],
  ["arena without reuse", (m) => m.memory.apart, bytes],
  ["weights", (m) => of(m, "weight"), bytes],
  ["code", (m) => m.kernels.reduce((sum, k) => sum + k.code, 0), bytes],
];

export function CompareView() {
  const { document } = useShared();
  const [a, b] = document.sides.map((side) => side.modules[0]);
  const known = ran(a, b) ? [RUN, ...FIGURES] : FIGURES;
  const figures: Figure[] = known.map(([name, value, text]) => ({ name, values: [value(a), value(b)], text }));
  const [first, second] = document.sides;
  return (
    <section class="compare" aria-label="Compare">
      <p class="lead">
        <b>A</b> is {first.title} ({a.target}), <b>B</b> is {second.title} ({b.target}).
        {document.sides.some((side) => side.modules.length > 1) && " Of programs the first graphs are compared."}
      </p>
      <div class="two">
        <div>
          <table class="rows">
            <caption>In numbers</caption>
            <Head names={["", "A", "B", "B − A", "B / A"]} />
            <tbody>
              {figures.map(({ name, values: [x, y], text }) => (
                <tr class={x === y ? "muted" : ""}>
                  <th scope="row">{name}</th>
                  <td class="number">{text(x)}</td>
                  <td class="number">{text(y)}</td>
                  <td class="number">{x === y ? "–" : (y > x ? "+" : "−") + text(Math.abs(y - x))}</td>
                  <td class="number">{x > 0 ? ratio(y / x) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <Kernels a={a} b={b} />
        </div>
        <div>
          <Timelines modules={[a, b]} />
          <Options a={a} b={b} />
          <Passes a={a} b={b} />
        </div>
      </div>
    </section>
  );
}

/** Three digits of a ratio. */
const ratio = (value: number) => (value < 0.1 ? value.toPrecision(2) : value.toFixed(2));

function Head({ names }: { names: string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name, index) => (
          <th scope="col" class={index ? "number" : ""}>{name}</th>
        ))}
      </tr>
    </thead>
  );
}

/** What kernels compute, without their signature: two targets' kernels of one group have one label. */
function Kernels({ a, b }: { a: Module; b: Module }) {
  const taken = (module: Module, kernel: Kernel) => (ran(a, b) ? spent(module, kernel) : kernel.time);
  const rows = useMemo(() => {
    const names = new Set([...a.kernels, ...b.kernels].map((k) => k.name));
    const by = (module: Module) => new Map(module.kernels.map((k) => [k.name, k] as [string, Kernel]));
    const [x, y] = [by(a), by(b)];
    return [...names]
      .map((name) => ({ name, x: x.get(name), y: y.get(name) }))
      .map((row) => ({ ...row, before: row.x ? taken(a, row.x) : 0, after: row.y ? taken(b, row.y) : 0 }))
      .map((row) => ({ ...row, cost: row.after - row.before }))
      .sort((p, q) => Math.abs(q.cost) - Math.abs(p.cost));
  }, [a, b]);
  const differ = rows.filter((row) => row.x?.tasks !== row.y?.tasks || row.x?.time !== row.y?.time);
  const same = rows.length - differ.length;
  return (
    <table class="rows">
      <caption>
        Kernels: {count(differ.length)} differ, {count(same)} are equal
      </caption>
      {differ.length > 0 && <Head names={["kernel", "result", "A, tasks", "B, tasks", "A, µs", "B, µs", "B − A, µs"]} />}
      <tbody>
        {differ.slice(0, MOST_ROWS).map(({ name, x, y, before, after, cost }) => (
          <tr>
            <td class="clip name" title={name}>{labels(x ? a : b).kernels.get(name)}</td>
            <td class="number">{labels(x ? a : b).shapes.get(name)}</td>
            <td class="number">{x ? x.tasks : "–"}</td>
            <td class="number">{y ? y.tasks : "–"}</td>
            <td class="number">{x ? micros(before) : "–"}</td>
            <td class="number">{y ? micros(after) : "–"}</td>
            <td class="number">{(cost > 0 ? "+" : cost < 0 ? "−" : "") + micros(Math.abs(cost))}</td>
          </tr>
        ))}
        {differ.length > MOST_ROWS && (
          <tr>
            <td class="muted">and {differ.length - MOST_ROWS} that differ by less</td>
          </tr>
        )}
      </tbody>
    </table>
  );
}

function Timelines({ modules }: { modules: Module[] }) {
  const last = Math.max(...modules.map((m) => m.makespan), 1);
  const [width, row, left] = [760, 14, 84];
  const tops = modules.map((_, index) => modules.slice(0, index).reduce((sum, m) => sum + m.streams * row + 34, 0));
  const height = tops[1] + modules[1].streams * row + 34;
  return (
    <figure class="plot">
      <figcaption>Both schedules on one scale of time, busy streams</figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Both schedules, predicted">
        {modules.map((module, index) => (
          <g transform={`translate(0,${tops[index]})`}>
            <text x={4} y={14}>{"AB"[index]}: {time(module.makespan)}</text>
            {Array.from({ length: module.streams }, (_, stream) => (
              <g>
                <text class="muted-text" x={left - 8} y={31 + stream * row} text-anchor="end">stream {stream}</text>
                <path
                  class={`busy stream-${stream % 8}`}
                  d={bars(module, stream, (t) => left + ((width - left - 8) * t) / last, 22 + stream * row, row - 3)}
                />
              </g>
            ))}
          </g>
        ))}
      </svg>
    </figure>
  );
}

/** The tasks of a stream as one path; those without a gap between them are one bar. */
function bars(module: Module, stream: number, x: (time: number) => number, y: number, height: number): string {
  let path = "";
  let [from, to] = [-1, -1];
  const flush = () => {
    if (from >= 0) path += `M${from.toFixed(1)},${y}h${Math.max(0.6, to - from).toFixed(1)}v${height}h${(-Math.max(0.6, to - from)).toFixed(1)}z`;
  };
  for (const task of module.tasks) {
    if (task.stream !== stream) continue;
    if (x(task.start) - to > 0.5 || from < 0) {
      flush();
      from = x(task.start);
    }
    to = x(task.end);
  }
  flush();
  return path;
}

function Options({ a, b }: { a: Module; b: Module }) {
  const names = [...new Set([...a.options, ...b.options].map(([name]) => name))];
  const value = (module: Module, name: string) => module.options.find(([n]) => n === name)?.[1] ?? "–";
  const differ = names.filter((name) => value(a, name) !== value(b, name) && name !== "pipeline");
  return (
    <table class="rows texts">
      <caption>Options: {differ.length ? `${differ.length} differ` : "all equal"}</caption>
      {differ.length > 0 && (
        <thead>
          <tr>
            <th scope="col" />
            <th scope="col">A</th>
            <th scope="col">B</th>
          </tr>
        </thead>
      )}
      <tbody>
        {differ.map((name) => (
          <tr>
            <th scope="row">{name}</th>
            <td title={value(a, name)}>
              <div>{value(a, name)}</div>
            </td>
            <td title={value(b, name)}>
              <div>{value(b, name)}</div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A pass without long values, such as a whole placement. */
const brief = (spec: string) => spec.replace(/"([^"]{24})[^"]+"/g, '"$1…"');

function Passes({ a, b }: { a: Module; b: Module }) {
  const specs = (module: Module) => {
    if (module.passes.length) return module.passes.map((each) => each.spec);
    const pipeline = module.options.find(([name]) => name === "pipeline")?.[1] ?? "";
    return pipeline === "as given" ? [] : pipeline.split(/,(?![^{]*\})/).filter(Boolean);
  };
  const [x, y] = [specs(a), specs(b)];
  if (!x.length || !y.length) {
    return <p class="note">Passes are compared where both sides record theirs: name models, or artifacts of a GPU.</p>;
  }
  const only = (mine: string[], others: string[]) => mine.filter((spec) => !others.includes(spec));
  const list = (items: string[]): ComponentChildren =>
    items.length ? items.map((spec) => <li class="code wrap">{brief(spec)}</li>) : <li class="muted">none</li>;
  return (
    <div class="only">
      <h3>Passes of A alone</h3>
      <ul class="plain">{list(only(x, y))}</ul>
      <h3>Passes of B alone</h3>
      <ul class="plain">{list(only(y, x))}</ul>
    </div>
  );
}
