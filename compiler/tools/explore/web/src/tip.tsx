/** What a timeline says of a task under the pointer, and of its rows in all. */
import type { Kernel } from "./document";
import { bytes, count, flops, micros, percent, rate, time } from "./format";
import { labels } from "./labels";
import type { Bar, Lane } from "./lanes";
import { streamColour } from "./palette";
import { useShared } from "./state";

interface TipProperties {
  bar: Bar;
  lane: Lane;
  x: number;
  y: number;
  width: number;
}

export function Tip({ bar, lane, x, y, width }: TipProperties) {
  const { module } = useShared();
  const each = module.tasks[bar.task];
  const kernel = module.kernels.find((one) => one.name === each.kernel);
  const helpers = lane.kind === "thread" ? new Set(module.helps.filter((h) => h.task === bar.task).map((h) => h.thread)) : null;
  const place = lane.kind === "thread" ? `, thread ${each.thread}` : "";
  return (
    <div class="tip" style={{ left: `${x > width - 330 ? x - 310 : x + 14}px`, top: `${y + 14}px` }}>
      <b>{labels(module).tasks[bar.task]}</b>
      <div>
        task {bar.task}, stream {each.stream}{place}
      </div>
      <div>
        {bar.helps ? "helps" : lane.title} {micros(bar.from)} to {micros(bar.to)} µs: {time(bar.to - bar.from)}
      </div>
      {helpers !== null && helpers.size > 0 && <div>helped by threads {[...helpers].sort().join(", ")}</div>}
      <div>
        alone {time(each.alone)}
        {lane.title === "measured" ? `, predicted ${time(each.end - each.start)}` : ""}
        {lane.title === "predicted" && each.measured ? `, measured ${time(each.measured[1] - each.measured[0])}` : ""}
      </div>
      {kernel && <Work kernel={kernel} ns={lane.title === "measured" ? each.measured![1] - each.measured![0] : each.alone} />}
      <div class="muted">{each.nodes.slice(0, 4).join(", ")}{each.nodes.length > 4 ? ", …" : ""}</div>
    </div>
  );
}

/** A kernel's work, its rates in a time, and the occupancy of its launches where that is known. */
function Work({ kernel, ns }: { kernel: Kernel; ns: number }) {
  const { module } = useShared();
  const [gflops, bandwidth] = [kernel.flops / Math.max(1, ns), kernel.traffic / Math.max(1, ns)];
  const known = kernel.launches.filter((launch) => launch.occupancy !== null);
  return (
    <>
      <div>
        {flops(kernel.flops)}, {rate(gflops)}: {percent(gflops / kernel.flops_peak)} of the roof
      </div>
      <div>
        {bytes(kernel.traffic)}, {bandwidth.toFixed(1)} GB/s: {percent(bandwidth / module.device.bandwidth)} of the bandwidth
      </div>
      {known.map((launch) => (
        <div>
          occupancy {percent(launch.occupancy!)}, blocks an SM: {launch.resident_blocks}, waves: {launch.waves!.toFixed(2)}
        </div>
      ))}
      {kernel.template && (
        <div class="muted">
          {kernel.template}, {kernel.provenance}
        </div>
      )}
    </>
  );
}

/** A table of the rows of a timeline. */
export function Rows({ lane }: { lane: Lane }) {
  const { module } = useShared();
  const last = lane.bars.reduce((most, bar) => Math.max(most, bar?.to ?? 0), 0) || 1;
  const threads = lane.kind === "thread";
  return (
    <table class="rows narrow">
      <caption>{threads ? "Threads" : "Streams"}, {lane.title}</caption>
      <thead>
        <tr>
          <th scope="col">{lane.kind}</th>
          <th scope="col" class="number">tasks</th>
          <th scope="col" class="number">busy, µs</th>
          <th scope="col" class="number">of the run</th>
          {threads && <th scope="col" class="number">helping, µs</th>}
          <th scope="col" class="number">waits for others</th>
        </tr>
      </thead>
      <tbody>
        {lane.rows.map((bars, row) => {
          const own = bars.filter((bar) => !bar.helps);
          const sum = (list: Bar[]) => list.reduce((total, bar) => total + bar.to - bar.from, 0);
          const waits = own.flatMap((bar) => module.tasks[bar.task].after.filter((other) => lane.rowOf(other) !== row));
          return (
            <tr>
              <td>
                {!threads && <span class="swatch" style={{ background: streamColour(row) }} />} {row}
              </td>
              <td class="number">{count(own.length)}</td>
              <td class="number">{micros(sum(bars))}</td>
              <td class="number">{percent(sum(bars) / last)}</td>
              {threads && <td class="number">{micros(sum(bars.filter((bar) => bar.helps)))}</td>}
              <td class="number">{count(waits.length)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
