/** The tiles that competed for each kernel: measured times over the fastest, with their intervals. */
import { scaleLinear } from "d3-scale";
import { useState } from "preact/hooks";
import { Plot, type Mark } from "./choice";
import type { Kernel, Tile } from "./document";
import { micros, time } from "./format";
import { labels } from "./labels";
import { useShared } from "./state";

/** The kernels shown first, those that take the most time. */
const FIRST = 24;

const fields = (tile: Tile) => Object.entries(tile.config).map(([name, value]) => `${name} ${value}`).join(", ");

export function Tiles() {
  const { module } = useShared();
  const kernels = module.kernels.filter((kernel) => kernel.candidates.length > 0);
  const [chosen, choose] = useState<string | null>(null);
  const [all, setAll] = useState(false);
  const kernel = kernels.find((each) => each.name === chosen) ?? kernels[0];
  const on_cpu = module.target.startsWith("cpu");
  const how = on_cpu ? "least time alone on one thread" : "median alone with warm caches";
  const intervals = kernels.some((each) => each.candidates.some((tile) => tile.low !== null));
  const names = labels(module);
  return (
    <>
      <h3>Tiles</h3>
      <p class="muted">{module.choice.tiles}</p>
      {kernels.length > 0 && on_cpu && (
        <p class="muted">A time is the least of some runs, each after other data was in the second-level cache: it has no interval.</p>
      )}
      {kernels.length > 0 && !on_cpu && !intervals && (
        <p class="muted">The database has medians alone: it was measured before intervals were recorded.</p>
      )}
      {kernel && (
        <div class="two even">
          <div>
            <Overview kernels={all ? kernels : kernels.slice(0, FIRST)} chosen={kernel.name} onChoose={choose} />
            {kernels.length > FIRST && !all && <button onClick={() => setAll(true)}>Show all {kernels.length} kernels</button>}
          </div>
          <div>
            <label>
              Kernel{" "}
              <select aria-label="Kernel whose tiles are shown" value={kernel.name} onChange={(event) => choose(event.currentTarget.value)}>
                {kernels.map((each) => (
                  <option value={each.name}>
                    {names.kernels.get(each.name)} {names.shapes.get(each.name)}
                  </option>
                ))}
              </select>
            </label>
            <Plot title={`Tiles: ${how}${intervals ? " and 95 % interval" : ""}${on_cpu ? "" : "; a ring is the median with cold caches"}`} marks={kernel.candidates.map(mark)} bounds={[]} />
            <Listed tiles={kernel.candidates} on_cpu={on_cpu} />
            <p class="muted">
              Measured on {[...new Set(kernel.candidates.map((tile) => tile.device))].join(", ")}. {reason(kernel)}
            </p>
          </div>
        </div>
      )}
    </>
  );
}

/** The candidates with the fields in which they differ. */
function Listed({ tiles, on_cpu }: { tiles: Tile[]; on_cpu: boolean }) {
  const all = [...new Set(tiles.flatMap((tile) => Object.keys(tile.config)))];
  const differing = all.filter((name) => new Set(tiles.map((tile) => tile.config[name])).size > 1);
  return (
    <div class="scroll">
      <table class="rows narrow">
        <thead>
          <tr>
            <th scope="col">tile</th>
            <th scope="col">template</th>
            {differing.map((name) => (
              <th scope="col" class="number">{name.replaceAll("_", " ")}</th>
            ))}
            <th scope="col" class="number">{on_cpu ? "least, µs" : "warm, µs"}</th>
            {!on_cpu && <th scope="col" class="number">95 % interval</th>}
            {!on_cpu && <th scope="col" class="number">cold, µs</th>}
          </tr>
        </thead>
        <tbody>
          {tiles.map((tile, index) => (
            <tr class={tile.chosen ? "chosen-row" : ""} title={fields(tile)}>
              <td>{tile.chosen ? "✓\u00a0" : ""}{index + 1}</td>
              <td>{tile.template}</td>
              {differing.map((name) => (
                <td class="number">{tile.config[name] ?? ""}</td>
              ))}
              <td class="number">{micros(tile.warm)}</td>
              {!on_cpu && <td class="number">{tile.low === null ? "not recorded" : `${micros(tile.low)} to ${micros(tile.high!)}`}</td>}
              {!on_cpu && <td class="number">{tile.cold === null ? "not measured" : micros(tile.cold)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const mark = (tile: Tile, index: number): Mark => ({
  name: `tile ${index + 1}`,
  value: tile.warm,
  low: tile.low,
  high: tile.high,
  other: tile.cold,
  note: "",
  chosen: tile.chosen,
});

/** Why another tile than the fastest may have been built. */
function reason(kernel: Kernel): string {
  const built = kernel.candidates.findIndex((tile) => tile.chosen);
  if (built === 0) return `The fastest was built (${kernel.provenance}).`;
  if (built > 0) return `Another than the fastest with warm caches was built: times with cold caches, or the whole model, decided (${kernel.provenance}).`;
  return `None of these was built: ${kernel.template || "TVM's schedule"} (${kernel.provenance}).`;
}

/** A row a kernel, a dot a tile: its time over that of the kernel's fastest. */
function Overview({ kernels, chosen, onChoose }: { kernels: Kernel[]; chosen: string; onChoose: (name: string) => void }) {
  const { module } = useShared();
  const names = labels(module);
  const [width, row, left, right] = [460, 18, 190, 62];
  const height = kernels.length * row + 34;
  const best = (kernel: Kernel) => Math.min(...kernel.candidates.map((tile) => tile.warm));
  const most = Math.max(...kernels.flatMap((kernel) => kernel.candidates.map((tile) => (tile.high ?? tile.warm) / best(kernel))));
  const x = scaleLinear([1, Math.max(1.2, most)], [left, width - right]);
  const title = "Tiles of each kernel: time over the fastest's; filled is the one built";
  return (
    <figure class="plot tiles">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={title}>
        {x.ticks(5).map((tick) => (
          <g>
            <line class="grid" x1={x(tick)} x2={x(tick)} y1={4} y2={height - 24} />
            <text x={x(tick)} y={height - 8} text-anchor="middle">{tick.toFixed(most < 1.5 ? 2 : 1)}</text>
          </g>
        ))}
        {kernels.map((kernel, index) => {
          const y = index * row + 14;
          return (
            <g class={kernel.name === chosen ? "tile-row chosen-mark" : "tile-row"} onClick={() => onChoose(kernel.name)}>
              <rect x={0} y={y - row / 2} width={width} height={row} />
              <text x={left - 10} y={y + 4} text-anchor="end">
                {`${names.kernels.get(kernel.name)} ${names.shapes.get(kernel.name)}`.slice(0, 30)}
              </text>
              {kernel.candidates.map((tile) => (
                <g>
                  {tile.low !== null && tile.high !== null && (
                    <line class="interval" x1={x(Math.max(1, tile.low / best(kernel)))} x2={x(tile.high / best(kernel))} y1={y} y2={y} />
                  )}
                  <circle class={tile.chosen ? "dot" : "ring"} cx={x(tile.warm / best(kernel))} cy={y} r={tile.chosen ? 4.5 : 3.5}>
                    <title>{`${tile.template} ${fields(tile)}: ${time(tile.warm)}`}</title>
                  </circle>
                </g>
              ))}
              <text x={width - 4} y={y + 4} text-anchor="end">{time(best(kernel))}</text>
            </g>
          );
        })}
      </svg>
    </figure>
  );
}
