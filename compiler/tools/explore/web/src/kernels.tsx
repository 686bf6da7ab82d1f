/** The kernels: a table that sorts, a roofline, configurations and sources. */
import { scaleLog } from "d3-scale";
import { useMemo, useState } from "preact/hooks";
import { Row } from "./details";
import type { Kernel } from "./document";
import { bytes, count, flops, micros, percent, rate, time } from "./format";
import { labels } from "./labels";
import { ranHere, spent } from "./spent";
import { useShared } from "./state";

const MOST_ROWS = 200;

/** Times the least that a kernel can take, from which on it counts as far from the roof. */
const FAR = 3;

interface Column {
  name: string;
  number: boolean;
  value: (kernel: Kernel) => number | string;
  text: (kernel: Kernel) => string;
}

/** A rate in a column: with one decimal where it is small, a dash for none. */
const figure = (value: number) => (value === 0 ? "–" : value < 10 ? value.toFixed(1) : count(Math.round(value)));

export function KernelsView() {
  const { module, task } = useShared();
  const names = labels(module);
  const time_of = (kernel: Kernel) => spent(module, kernel);
  const each = (kernel: Kernel) => time_of(kernel) / Math.max(1, kernel.tasks);
  /** An amount in a nanosecond; 0 for a kernel of a body, which has no time of its own. */
  const per_ns = (amount: number, kernel: Kernel) => (each(kernel) > 0 ? amount / each(kernel) : 0);
  /** The time over the least that the kernel's FLOPs and bytes need. */
  const over = (kernel: Kernel) => (kernel.floor > 0 ? each(kernel) / kernel.floor : 0);
  const far = module.kernels.filter((kernel) => over(kernel) > FAR);
  const total = module.kernels.reduce((sum, kernel) => sum + time_of(kernel), 0) || 1;
  const [order, setOrder] = useState<{ column: number; down: boolean }>({ column: 3, down: true });
  const [chosen, setChosen] = useState<string | null>(task === null ? null : module.tasks[task].kernel);
  const [all, setAll] = useState(false);
  const columns: Column[] = [
    { name: "kernel", number: false, value: (k) => k.name, text: (k) => names.kernels.get(k.name)! },
    { name: "result", number: false, value: (k) => names.shapes.get(k.name)!, text: (k) => names.shapes.get(k.name)! },
    { name: "tasks", number: true, value: (k) => k.tasks, text: (k) => count(k.tasks) },
    { name: "all, µs", number: true, value: time_of, text: (k) => micros(time_of(k)) },
    { name: "share", number: true, value: time_of, text: (k) => percent(time_of(k) / total) },
    { name: "each, µs", number: true, value: each, text: (k) => micros(each(k)) },
    { name: "least, µs", number: true, value: (k) => k.floor, text: (k) => micros(k.floor) },
    { name: "of least", number: true, value: over, text: (k) => (over(k) > 0 ? `${over(k).toFixed(1)}×` : "–") },
    { name: "GFLOP/s", number: true, value: (k) => per_ns(k.flops, k), text: (k) => figure(per_ns(k.flops, k)) },
    { name: "GB/s", number: true, value: (k) => per_ns(k.traffic, k), text: (k) => figure(per_ns(k.traffic, k)) },
    { name: "times", number: false, value: (k) => String(k.measured), text: (k) => (ranHere(module) ? "in\u00a0the\u00a0run" : k.measured ? "measured" : "estimated") },
    { name: "configuration", number: false, value: (k) => k.provenance, text: (k) => (k.template ? `${k.template}, ${k.provenance}` : k.provenance) },
  ];
  const sorted = useMemo(() => {
    const { value } = columns[order.column];
    const sign = order.down ? -1 : 1;
    return [...module.kernels].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return sign * (typeof x === "number" ? x - (y as number) : x.localeCompare(y as string));
    });
  }, [module, order]);
  const kernel = module.kernels.find((k) => k.name === chosen) ?? null;
  const rows = all ? sorted : sorted.slice(0, MOST_ROWS);
  return (
    <section class="kernels" aria-label="Kernels">
      <div class="two">
        <div>
          <Roofline chosen={chosen} onChoose={setChosen} />
          <p class="note">
            {count(far.length)} of {count(module.kernels.length)} kernels, {percent(far.reduce((sum, k) => sum + time_of(k), 0) / total)} of the time,
            take more than {FAR} times what their FLOPs and bytes need.
          </p>
          <div class="scroll">
            <table class="rows">
              <thead>
                <tr>
                  {columns.map((column, index) => (
                    <th
                      scope="col"
                      class={column.number ? "number" : ""}
                      aria-sort={order.column !== index ? "none" : order.down ? "descending" : "ascending"}
                    >
                      <button
                        class="sort"
                        onClick={() => setOrder({ column: index, down: order.column === index ? !order.down : column.number })}
                      >
                        {column.name}
                        <span aria-hidden="true">{order.column === index ? (order.down ? " ▾" : " ▴") : ""}</span>
                      </button>
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((k) => (
                  <tr
                    key={k.name}
                    tabIndex={0}
                    aria-selected={k.name === chosen}
                    class={k.name === chosen ? "chosen-row" : ""}
                    onClick={() => setChosen(k.name)}
                    onKeyDown={(event) => {
                      const row = event.currentTarget;
                      const next = event.key === "ArrowDown" ? row.nextElementSibling : event.key === "ArrowUp" ? row.previousElementSibling : null;
                      if (event.key === "Enter") setChosen(k.name);
                      if (!next) return;
                      event.preventDefault();
                      (next as HTMLElement).focus();
                    }}
                  >
                    {columns.map((column, index) => (
                      <td class={column.number ? "number" : index ? "" : "clip name"} title={index ? undefined : k.name}>
                        {column.name === "share" && <span class="share" style={{ width: `${(60 * time_of(k)) / total}px` }} />}
                        {column.text(k)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
            {sorted.length > rows.length && (
              <button onClick={() => setAll(true)}>Show all {count(sorted.length)} kernels</button>
            )}
          </div>
        </div>
        <div class="side">{kernel ? <KernelFacts kernel={kernel} /> : <p class="muted">Click a kernel to see its launches, configuration and source.</p>}</div>
      </div>
    </section>
  );
}

function Roofline({ chosen, onChoose }: { chosen: string | null; onChoose: (name: string) => void }) {
  const { module } = useShared();
  const { device } = module;
  const time_of = (kernel: Kernel) => spent(module, kernel);
  const gflops = (kernel: Kernel) => (kernel.flops * kernel.tasks) / time_of(kernel);
  const points = module.kernels.filter((k) => k.flops > 0 && k.traffic > 0 && time_of(k) > 0);
  if (!points.length) return <p class="note">No task is a kernel with FLOPs: there is no roofline to draw.</p>;
  const [width, height, left, bottom] = [860, 300, 74, 40];
  const intensity = points.map((k) => k.flops / k.traffic);
  const peak = Math.max(device.flops, device.tensor_flops);
  const ridge = peak / device.bandwidth;
  const x = scaleLog([Math.min(0.1, ...intensity) / 1.5, Math.max(ridge * 4, ...intensity) * 1.5], [left, width - 16]);
  const rates = points.map(gflops);
  const y = scaleLog([Math.max(Math.min(...rates) / 2, 1e-3), Math.max(peak, ...rates) * 2.5], [height - bottom, 14]);
  const roof = (flops: number) => {
    const [from, to] = x.domain();
    const corner = flops / device.bandwidth;
    return `M${x(from)},${y(from * device.bandwidth)} L${x(corner)},${y(flops)} L${x(to)},${y(flops)}`;
  };
  const most = Math.max(...points.map(time_of));
  const ticks = (scale: typeof x) => scale.ticks().filter((t) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9);
  return (
    <figure class="roofline">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Roofline of ${points.length} kernels on ${device.name}`}>
        {ticks(x).map((t) => (
          <g>
            <line class="grid" x1={x(t)} x2={x(t)} y1={14} y2={height - bottom} />
            <text x={x(t)} y={height - bottom + 16} text-anchor="middle">{+t.toPrecision(3)}</text>
          </g>
        ))}
        {ticks(y).map((t) => (
          <g>
            <line class="grid" x1={left} x2={width - 16} y1={y(t)} y2={y(t)} />
            <text x={left - 8} y={y(t) + 4} text-anchor="end">{count(+t.toPrecision(3))}</text>
          </g>
        ))}
        <clipPath id="plot">
          <rect x={left} y={10} width={width - left - 16} height={height - bottom - 10} />
        </clipPath>
        <g clip-path="url(#plot)">
          <path class="roof" d={roof(device.flops)} />
          {device.tensor_flops > 0 && <path class="roof" d={roof(device.tensor_flops)} />}
          {points.map((k, index) => (
            <circle
              class={k.name === chosen ? "point chosen-point" : "point"}
              cx={x(intensity[index])}
              cy={y(gflops(k))}
              r={3 + 9 * Math.sqrt(time_of(k) / most)}
              onClick={() => onChoose(k.name)}
            >
              <title>{`${labels(module).kernels.get(k.name)}: ${intensity[index].toFixed(1)} FLOP/B, ${rate(gflops(k))}, ${time(time_of(k))} in all`}</title>
            </circle>
          ))}
        </g>
        <text class="on-plot" x={width - 20} y={y(device.flops) - 6} text-anchor="end">{rate(device.flops)}</text>
        {device.tensor_flops > 0 && <text class="on-plot" x={width - 20} y={y(device.tensor_flops) - 6} text-anchor="end">tensor cores {rate(device.tensor_flops)}</text>}
        <text x={(left + width) / 2} y={height - 6} text-anchor="middle">arithmetic intensity, FLOP/B</text>
        <text transform={`translate(14,${(height - bottom) / 2 + 7}) rotate(-90)`} text-anchor="middle">GFLOP/s</text>
      </svg>
      <figcaption class="muted">
        Roofs of the device model of {device.name}: {rate(device.flops)}
        {device.tensor_flops > 0 ? `, tensor cores ${rate(device.tensor_flops)}` : ""}, {count(device.bandwidth)} GB/s. A
        circle is a kernel, its area the time of all its tasks
        {ranHere(module)
          ? " in the measured run. The model is a modest core: wide vectors, caches and threads that help lift kernels above its roofs."
          : "; a kernel that finds its bytes in the cache may be above the roof."}
      </figcaption>
    </figure>
  );
}

function KernelFacts({ kernel }: { kernel: Kernel }) {
  const { module } = useShared();
  const config = Object.entries(kernel.config);
  return (
    <div class="chosen">
      <h2>{labels(module).kernels.get(kernel.name)}</h2>
      <p class="muted code">{kernel.name}</p>
      <table class="facts">
        <tbody>
          <Row name="language" value={kernel.language === "object" ? "machine code of the CPU" : kernel.language} />
          <Row name="work" value={`${flops(kernel.flops)}, ${bytes(kernel.traffic)}`} />
          <Row name="roof" value={rate(kernel.flops_peak)} />
          <Row name="code" value={bytes(kernel.code)} />
          <Row name="template" value={kernel.template || "none"} />
          <Row name="configuration" value={kernel.provenance} />
          {config.map(([name, value]) => (
            <Row name={name} value={value} />
          ))}
          {kernel.workspaces.length > 0 && <Row name="workspaces" value={kernel.workspaces.map(bytes).join(", ")} />}
        </tbody>
      </table>
      <h3>Launches</h3>
      {kernel.launches.map((launch) => (
        <table class="facts">
          <tbody>
            <Row name="symbol" value={launch.symbol} />
            <Row name="grid" value={launch.grid.join(" × ")} />
            {kernel.language !== "object" && <Row name="block" value={launch.block.join(" × ")} />}
            {kernel.language !== "object" && (
              <Row name="shared memory" value={bytes(launch.shared_bytes + launch.static_shared_bytes)} />
            )}
            {launch.registers > 0 && <Row name="registers" value={`${launch.registers} a thread`} />}
            {launch.occupancy !== null && (
              <Row name="occupancy" value={`${percent(launch.occupancy)}, blocks an SM: ${launch.resident_blocks}, waves: ${launch.waves!.toFixed(2)}`} />
            )}
          </tbody>
        </table>
      ))}
      <h3>Operands</h3>
      <ul class="plain code">
        {kernel.reads.map((text, index) => (
          <li>
            reads {text} {kernel.packings[index] ? <span class="muted">packed {kernel.packings[index]}</span> : ""}
          </li>
        ))}
        {kernel.writes.map((text) => (
          <li>writes {text}</li>
        ))}
      </ul>
      <Source kernel={kernel} />
    </div>
  );
}

function Source({ kernel }: { kernel: Kernel }) {
  const [said, say] = useState("");
  const [wanted, want] = useState("");
  const all = Object.keys(kernel.sources);
  const name = all.includes(wanted) ? wanted : all[all.length > 1 && kernel.language !== "object" ? 1 : 0];
  if (!name) {
    return (
      <>
        <h3>Source</h3>
        <p class="muted">{kernel.lacking}</p>
      </>
    );
  }
  const text = kernel.sources[name];
  const copy = () => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    say(document.execCommand("copy") ? "copied" : "not copied: select the text");
    area.remove();
  };
  return (
    <>
      <h3>
        Source <button onClick={copy}>Copy</button> <span role="status" class="muted">{said}</span>
      </h3>
      <div class="sources" role="group" aria-label="Texts of the kernel">
        {all.map((each) => (
          <button aria-pressed={each === name} onClick={() => (want(each), say(""))}>{each}</button>
        ))}
      </div>
      <pre class="source" tabIndex={0} aria-label={`${name} of the kernel`}>{text}</pre>
      {kernel.lacking && <p class="muted">{kernel.lacking}</p>}
    </>
  );
}
