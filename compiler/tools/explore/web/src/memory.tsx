/** Bytes over time, and the arena as a map of offsets and time. */
import { scaleLinear } from "d3-scale";
import { useMemo, useState } from "preact/hooks";
import { Canvas, fitted } from "./canvas";
import { byteTicks, bytes, count, micros, shape } from "./format";
import { labels } from "./labels";
import { SMALL, colours, inkOn, streamColour } from "./palette";
import { useShared } from "./state";

const LEFT = 84;
const RIGHT = 16;
const CHART = 130;
const MAP_TOP = CHART + 52;

export function MemoryView() {
  const { module, theme, select, show, found } = useShared();
  void theme;
  const { memory } = module;
  const [region, setRegion] = useState<number | null>(null);
  const last = Math.max(1, module.makespan);
  const size = useMemo(() => memory.regions.reduce((most, r) => Math.max(most, r.offset + r.nbytes), 1), [memory]);
  const names = labels(module).tasks;
  const hits = useMemo(() => (found ? new Set(found) : null), [found]);
  const reusedBy = useMemo(() => {
    const lists = memory.regions.map((): number[] => []);
    memory.regions.forEach((each, index) => each.reuses.forEach((other) => lists[other].push(index)));
    return lists;
  }, [memory]);
  const near = region === null ? null : new Set([region, ...memory.regions[region].reuses, ...reusedBy[region]]);
  const x = (width: number) => scaleLinear([0, last], [LEFT, width - RIGHT]);
  const y = (height: number) => scaleLinear([0, size], [MAP_TOP, height - 26]);

  const draw = (context: CanvasRenderingContext2D, width: number, height: number) => {
    const c = colours();
    const [sx, sy] = [x(width), y(height)];
    context.font = SMALL;
    context.textBaseline = "middle";
    drawChart(context, c, sx, width);
    context.fillStyle = c.text;
    context.textAlign = "left";
    context.fillText("arena: offset in bytes, down, and time", LEFT, MAP_TOP - 16);
    context.textAlign = "right";
    for (const tick of byteTicks(size, 7)) grid(context, c, LEFT, width - RIGHT, sy(tick), bytes(tick));
    context.textAlign = "center";
    context.fillStyle = c.muted;
    for (const tick of sx.ticks(8)) context.fillText(`${+(tick / 1e3).toFixed(1)} µs`, sx(tick), height - 10);
    let drawn = 0;
    memory.regions.forEach((each, index) => {
      const [left, top] = [sx(each.start), sy(each.offset)];
      const [wide, high] = [Math.max(1, sx(each.end) - left), Math.max(1, sy(each.offset + each.nbytes) - top)];
      const dim = (near && !near.has(index)) || (hits && !hits.has(each.first));
      drawn++;
      context.globalAlpha = dim ? 0.18 : 0.82;
      context.fillStyle = streamColour(module.tasks[each.first].stream);
      context.fillRect(left, top, wide, high);
      context.globalAlpha = dim ? 0.3 : 1;
      context.strokeStyle = index === region ? c.accent : c.ground;
      context.lineWidth = index === region ? 3 : 1;
      if ((wide > 3 && high > 3) || index === region) context.strokeRect(left + 0.5, top + 0.5, wide - 1, high - 1);
      if (wide > 60 && high > 13 && !dim) label(context, names[each.first], left, top, wide, high, inkOn(module.tasks[each.first].stream));
    });
    context.globalAlpha = 1;
    if (region !== null) drawReuse(context, c, sx, sy);
    context.textAlign = "left";
    context.canvas.dataset.drawn = String(drawn);
  };

  const drawChart = (context: CanvasRenderingContext2D, c: ReturnType<typeof colours>, sx: ReturnType<typeof x>, width: number) => {
    const most = Math.max(memory.peak, 1);
    const sy = scaleLinear([0, most], [CHART, 30]);
    context.fillStyle = c.text;
    context.textAlign = "left";
    context.fillText(`bytes in use over time, peak ${bytes(memory.peak)}`, LEFT, 14);
    context.textAlign = "right";
    for (const tick of byteTicks(most, 4)) grid(context, c, LEFT, width - RIGHT, sy(tick), bytes(tick));
    context.beginPath();
    context.moveTo(sx(0), sy(0));
    let used = 0;
    for (const [at, value] of memory.steps) {
      context.lineTo(sx(at), sy(used));
      context.lineTo(sx(at), sy(value));
      used = value;
    }
    context.lineTo(sx(last), sy(used));
    context.strokeStyle = c.accent;
    context.lineWidth = 1.5;
    context.stroke();
    context.lineTo(sx(last), sy(0));
    context.globalAlpha = 0.16;
    context.fillStyle = c.accent;
    context.fill();
    context.globalAlpha = 1;
  };

  const drawReuse = (context: CanvasRenderingContext2D, c: ReturnType<typeof colours>, sx: ReturnType<typeof x>, sy: ReturnType<typeof y>) => {
    const mine = memory.regions[region!];
    context.strokeStyle = c.path;
    context.lineWidth = 2;
    const middle = (each: typeof mine) => sy(each.offset + each.nbytes / 2);
    for (const other of mine.reuses.map((index) => memory.regions[index])) {
      context.beginPath();
      context.moveTo(sx(other.end), middle(other));
      context.lineTo(sx(mine.start), middle(mine));
      context.stroke();
    }
  };

  const at = (px: number, py: number): number | null => {
    const box = document.querySelector<HTMLElement>(".memory .canvas")!;
    const [time, offset] = [x(box.clientWidth).invert(px), y(box.clientHeight).invert(py)];
    const index = memory.regions.findIndex(
      (each) => each.start <= time && time <= each.end && each.offset <= offset && offset < each.offset + each.nbytes,
    );
    return index < 0 ? null : index;
  };
  const key = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    if (event.key === "Escape") setRegion(null);
    else if (steps[event.key] && memory.regions.length) {
      event.preventDefault();
      const next = region === null ? 0 : region + steps[event.key];
      setRegion(Math.max(0, Math.min(memory.regions.length - 1, next)));
    }
  };

  const kinds = ["input", "output", "weight", "arena"].map((kind) => {
    const all = memory.allocations.filter((each) => each.kind === kind);
    return { kind, all, total: all.reduce((sum, each) => sum + each.nbytes, 0) };
  });
  const largest = [...memory.allocations].filter((each) => each.kind === "weight").sort((a, b) => b.nbytes - a.nbytes);
  return (
    <section class="memory" aria-label="Memory">
      <div class="two">
        <div>
          {memory.regions.length > 0 ? (
            <Canvas
              label={`Arena of ${bytes(size)} in which ${memory.regions.length} tensors share bytes. Arrow keys select a tensor.`}
              height={560}
              draw={draw}
              onKeyDown={key}
              onClick={(px, py) => setRegion(at(px, py))}
            />
          ) : (
            <p class="note">This schedule has no arena: its tasks read and write inputs, outputs and weights alone.</p>
          )}
        </div>
        <div class="side">
          <table class="rows">
            <caption>Allocations</caption>
            <thead>
              <tr>
                <th scope="col">kind</th>
                <th scope="col" class="number">number</th>
                <th scope="col" class="number">size</th>
              </tr>
            </thead>
            <tbody>
              {kinds.map((each) => (
                <tr>
                  <td>{each.kind}</td>
                  <td class="number">{count(each.all.length)}</td>
                  <td class="number">{bytes(each.total)}</td>
                </tr>
              ))}
              <tr>
                <td>arena without reuse</td>
                <td class="number">{count(memory.regions.length)}</td>
                <td class="number">{bytes(memory.apart)}</td>
              </tr>
            </tbody>
          </table>
          {region !== null ? <Chosen /> : <p class="muted">Click a tensor in the arena to see whose bytes it reuses.</p>}
          {largest.length > 0 && (
            <table class="rows fixed">
              <caption>Largest weights</caption>
              <tbody>
                {largest.slice(0, 8).map((each) => (
                  <tr>
                    <td class="code clip" title={each.name}>{each.name.split("|")[0]}</td>
                    <td class="number">{bytes(each.nbytes)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      </div>
    </section>
  );

  function Chosen() {
    const each = memory.regions[region!];
    const view = module.tasks[each.first].writes.find((v) => v.allocation === each.allocation && v.offset === each.offset);
    const name = (index: number) => names[memory.regions[index].first];
    return (
      <div class="chosen" role="status">
        <h2>{names[each.first]}</h2>
        <p class="code">{view ? `${view.dtype} ${shape(view.shape)}` : ""}</p>
        <p>
          {bytes(each.nbytes)} at offset {count(each.offset)}, {micros(each.start)} to {micros(each.end)} µs
        </p>
        <p>
          written by{" "}
          <button class="link" onClick={() => (select(each.first), show("Graph"))}>
            task {each.first}
          </button>
          , last used by{" "}
          <button class="link" onClick={() => (select(each.final), show("Graph"))}>
            task {each.final}
          </button>
        </p>
        {each.reuses.length > 0 && <List title="reuses the bytes of" items={each.reuses} />}
        {reusedBy[region!].length > 0 && <List title="its bytes are reused by" items={reusedBy[region!]} />}
      </div>
    );
    function List({ title, items }: { title: string; items: number[] }) {
      return (
        <p>
          <span class="muted">{title}</span>
          <br />
          {items.slice(0, 8).map((index) => (
            <button class="link block" onClick={() => setRegion(index)}>
              {name(index)}, {bytes(memory.regions[index].nbytes)}
            </button>
          ))}
          {items.length > 8 && <span class="muted">and {items.length - 8} more</span>}
        </p>
      );
    }
  }
}

function grid(context: CanvasRenderingContext2D, c: ReturnType<typeof colours>, left: number, right: number, at: number, text: string) {
  context.strokeStyle = c.line;
  context.lineWidth = 1;
  context.globalAlpha = 0.6;
  context.beginPath();
  context.moveTo(left, Math.round(at) + 0.5);
  context.lineTo(right, Math.round(at) + 0.5);
  context.stroke();
  context.globalAlpha = 1;
  context.fillStyle = c.muted;
  context.fillText(text, left - 8, at);
}

function label(context: CanvasRenderingContext2D, text: string, left: number, top: number, wide: number, high: number, ink: string) {
  const name = fitted(context, text, wide - 10);
  if (!name) return;
  context.textAlign = "left";
  context.fillStyle = ink;
  context.fillText(name, left + 5, top + high / 2);
}
