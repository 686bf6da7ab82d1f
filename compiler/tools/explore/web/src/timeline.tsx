/** When each task runs: a row a stream, or a thread of the CPU, with the waits between them. */
import { scaleLinear } from "d3-scale";
import { select as selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, fitted } from "./canvas";
import type { Module } from "./document";
import { time } from "./format";
import { labels } from "./labels";
import { lanes, type Bar, type Lane } from "./lanes";
import { FONT, SMALL, colours, inkOn, streamColour } from "./palette";
import { useShared } from "./state";
import { Rows, Tip } from "./tip";

const ROW = 30;
const BAR = 22;
const HEAD = 30;
const TITLE = 24;
const LEFT = 92;
/** Waits in view that are drawn; of more only those of the selected task. */
const MOST_WAITS = 600;

/** A timeline and the pixel row of its title. */
interface Placed extends Lane {
  top: number;
}

/** The timelines one below the other, and the height of all. */
function stacked(all: Lane[]): { placed: Placed[]; height: number } {
  let top = HEAD;
  const placed = all.map((lane) => {
    const found = { ...lane, top };
    top += TITLE + lane.rows.length * ROW + 16;
    return found;
  });
  return { placed, height: top - 4 };
}

/** The end of the last task, in the prediction or the measured run. */
const ending = (module: Module) =>
  module.tasks.reduce((most, each) => Math.max(most, each.end, each.measured?.[1] ?? 0), 0);

export function TimelineView() {
  const { document: whole, module, task, select, found, theme } = useShared();
  void theme;
  const view = useRef<ZoomTransform>(zoomIdentity);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  const element = useRef<HTMLCanvasElement | null>(null);
  const [hover, setHover] = useState<{ bar: Bar; lane: Lane; x: number; y: number } | null>(null);
  const [waits, setWaits] = useState(true);
  const [, redraw] = useState(0);
  const names = labels(module).tasks;
  const hits = useMemo(() => (found ? new Set(found) : null), [found]);
  const { placed, height } = useMemo(() => stacked(lanes(module)), [module]);
  const graphs = useMemo(() => whole.sides.flatMap((side) => side.modules), [whole]);
  const [alike, setAlike] = useState(false);
  const last = useMemo(() => Math.max(1, ...(alike ? graphs : [module]).map(ending)), [alike, module]);
  const scale = (width: number) => {
    const base = scaleLinear([0, last], [LEFT, width - 16]);
    return view.current.rescaleX(base);
  };

  const connect = (canvas: HTMLCanvasElement) => {
    element.current = canvas;
    behaviour.current = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([1, 4000])
      .translateExtent([[0, 0], [canvas.clientWidth, 0]])
      .on("zoom", (event: { transform: ZoomTransform }) => {
        view.current = event.transform;
        redraw((value) => value + 1);
      });
    selection(canvas).call(behaviour.current);
  };
  useEffect(() => {
    const canvas = element.current;
    if (task === null || !canvas || !behaviour.current) return;
    const x = scale(canvas.clientWidth);
    const each = module.tasks[task];
    if (x(each.start) > LEFT && x(each.end) < canvas.clientWidth - 16) return;
    const base = scaleLinear([0, last], [LEFT, canvas.clientWidth - 16]);
    behaviour.current.translateTo(selection(canvas), base((each.start + each.end) / 2), 0);
  }, [task]);

  const draw = (context: CanvasRenderingContext2D, width: number, height: number) => {
    const c = colours();
    const x = scale(width);
    drawAxis(context, c, x, width, height);
    let drawn = 0;
    for (const lane of placed) {
      context.font = FONT;
      context.fillStyle = c.text;
      context.textBaseline = "middle";
      context.fillText(lane.title, 12, lane.top + TITLE / 2);
      if (waits) drawWaits(context, c, lane, x, width);
      lane.rows.forEach((bars, row) => {
        const top = lane.top + TITLE + row * ROW + (ROW - BAR) / 2;
        context.font = SMALL;
        context.fillStyle = c.muted;
        context.fillText(`${lane.kind} ${row}`, 12, top + BAR / 2);
        drawn += drawRow(context, c, bars, top, x, width);
      });
    }
    context.canvas.dataset.drawn = String(drawn);
  };

  const drawAxis = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    x: ReturnType<typeof scale>,
    width: number,
    height: number,
  ) => {
    context.font = SMALL;
    context.textBaseline = "middle";
    context.textAlign = "center";
    context.strokeStyle = c.line;
    context.lineWidth = 1;
    for (const tick of x.ticks(Math.max(3, Math.floor(width / 110)))) {
      const at = Math.round(x(tick)) + 0.5;
      if (at < LEFT) continue;
      context.globalAlpha = 0.6;
      context.beginPath();
      context.moveTo(at, HEAD - 6);
      context.lineTo(at, height);
      context.stroke();
      context.globalAlpha = 1;
      context.fillStyle = c.muted;
      context.fillText(last < 1e7 ? `${+(tick / 1e3).toFixed(3)} µs` : `${+(tick / 1e6).toFixed(4)} ms`, at, 12);
    }
    context.textAlign = "left";
  };

  const drawRow = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    bars: Bar[],
    top: number,
    x: ReturnType<typeof scale>,
    width: number,
  ) => {
    let drawn = 0;
    let free = -1;
    context.save();
    context.beginPath();
    context.rect(LEFT - 1, top - 3, width - LEFT + 1, BAR + 6);
    context.clip();
    for (const bar of bars) {
      const index = bar.task;
      const [from, to] = [x(bar.from), x(bar.to)];
      if (to < LEFT || from > width || (to < free && index !== task)) continue;
      const wide = Math.max(1, to - from - 0.5);
      free = from + 1;
      drawn++;
      const each = module.tasks[index];
      const alpha = hits && !hits.has(index) ? 0.2 : 1;
      context.globalAlpha = bar.helps ? 0.35 * alpha : alpha;
      context.fillStyle = streamColour(each.stream);
      context.beginPath();
      context.roundRect(from, top, wide, BAR, Math.min(3, wide / 2));
      context.fill();
      context.globalAlpha = alpha;
      if (each.critical && !bar.helps && wide > 3) {
        context.fillStyle = c.path;
        context.fillRect(from, top + BAR - 3, wide, 3);
      }
      if (wide > 34) {
        context.font = SMALL;
        context.fillStyle = bar.helps ? c.text : inkOn(each.stream);
        context.fillText(fitted(context, bar.helps ? `helps ${names[index]}` : names[index], wide - 10), from + 5, top + BAR / 2 - 0.5);
      }
      if (index === task) {
        context.strokeStyle = c.accent;
        context.lineWidth = 2.5;
        context.strokeRect(from - 1.5, top - 1.5, Math.max(3, wide + 3), BAR + 3);
      }
    }
    context.restore();
    return drawn;
  };

  const drawWaits = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    lane: Placed,
    x: ReturnType<typeof scale>,
    width: number,
  ) => {
    const shown = waitsIn(lane, x, width);
    const middle = (task: number) => lane.top + TITLE + lane.rowOf(task) * ROW + ROW / 2;
    const many = shown.length > MOST_WAITS;
    if (many) {
      context.fillStyle = c.muted;
      context.font = SMALL;
      context.fillText(`${shown.length.toLocaleString("en")} waits are in view: zoom in to see them`, LEFT, lane.top + TITLE / 2);
    }
    for (const { other, index, ax, bx } of shown) {
      const mine = index === task || other === task;
      if (many && !mine) continue;
      const [ay, by] = [middle(other), middle(index)];
      context.strokeStyle = mine ? c.accent : c.muted;
      context.globalAlpha = mine ? 1 : 0.45;
      context.lineWidth = mine ? 2 : 1;
      context.beginPath();
      context.moveTo(ax, ay);
      const bend = Math.max(8, Math.min(30, (bx - ax) / 2));
      context.bezierCurveTo(ax + bend, ay, bx - bend, by, bx, by);
      context.stroke();
      context.beginPath();
      context.moveTo(bx, by);
      context.lineTo(bx - 5, by - 3);
      context.lineTo(bx - 5, by + 3);
      context.fillStyle = context.strokeStyle;
      context.fill();
    }
    context.globalAlpha = 1;
  };

  /** The waits between rows that are in view, with the places of both ends. */
  const waitsIn = (lane: Placed, x: ReturnType<typeof scale>, width: number) =>
    module.tasks.flatMap((each, index) =>
      each.after.flatMap((other) => {
        const [from, to] = [lane.bars[other], lane.bars[index]];
        if (!from || !to || lane.rowOf(other) === lane.rowOf(index)) return [];
        const [ax, bx] = [x(from.to), x(to.from)];
        return bx < LEFT || ax > width || ax < LEFT ? [] : [{ other, index, ax, bx }];
      }),
    );

  const at = (px: number, py: number): { bar: Bar; lane: Lane } | null => {
    const canvas = element.current;
    if (!canvas || px < LEFT) return null;
    const x = scale(canvas.clientWidth);
    for (const lane of placed) {
      const row = lane.rows[Math.floor((py - lane.top - TITLE) / ROW)] ?? [];
      const bar = row.find((each) => px >= x(each.from) - 1 && px <= Math.max(x(each.to), x(each.from) + 2));
      if (bar) return { bar, lane };
    }
    return null;
  };

  const key = (event: KeyboardEvent) => {
    const canvas = element.current;
    if (!canvas || !behaviour.current) return;
    const { rows } = placed[0];
    const beside = (step: number) => {
      if (task === null) return 0;
      const row = rows[module.tasks[task].stream];
      return row[row.findIndex((bar) => bar.task === task) + step]?.task;
    };
    const near = (stream: number) => {
      const row = rows[stream];
      if (!row?.length || task === null) return undefined;
      const { start } = module.tasks[task];
      return row.reduce((a, b) => (Math.abs(b.from - start) < Math.abs(a.from - start) ? b : a)).task;
    };
    const next: Record<string, () => number | undefined> = {
      ArrowRight: () => beside(1),
      ArrowLeft: () => beside(-1),
      ArrowDown: () => (task === null ? 0 : near(module.tasks[task].stream + 1)),
      ArrowUp: () => (task === null ? 0 : near(module.tasks[task].stream - 1)),
    };
    if (next[event.key]) {
      const found = next[event.key]();
      if (found !== undefined) select(found);
    } else if (event.key === "+" || event.key === "=") behaviour.current.scaleBy(selection(canvas), 1.5);
    else if (event.key === "-") behaviour.current.scaleBy(selection(canvas), 1 / 1.5);
    else if (event.key === "0") behaviour.current.transform(selection(canvas), zoomIdentity);
    else if (event.key === "Escape") select(null);
    else return;
    event.preventDefault();
  };

  return (
    <section class="timeline" aria-label="Timeline">
      <div class="tools">
        <button onClick={() => element.current && behaviour.current?.transform(selection(element.current), zoomIdentity)}>
          Whole run
        </button>
        <label>
          <input type="checkbox" checked={waits} onChange={(event) => setWaits(event.currentTarget.checked)} /> waits
          between streams
        </label>
        {graphs.length > 1 && (
          <label>
            <input type="checkbox" checked={alike} onChange={(event) => setAlike(event.currentTarget.checked)} /> one
            scale for all graphs
          </label>
        )}
        <span class="legend">
          <span>
            <span class="swatch path" /> critical path
          </span>
          {module.helps.length > 0 && (
            <span>
              <span class="swatch helps" /> blocks of a task that another thread runs
            </span>
          )}
        </span>
        <span class="space" />
        <span class="muted help">scroll zooms, drag pans, arrow keys go from task to task</span>
      </div>
      <Canvas
        label={`Timeline of ${module.tasks.length} tasks on ${module.streams} streams, ${time(module.makespan)}.`}
        height={Math.max(height, 180)}
        draw={draw}
        connect={connect}
        onKeyDown={key}
        onClick={(x, y) => select(at(x, y)?.bar.task ?? null)}
        onHover={(x, y) => {
          const found = at(x, y);
          setHover(found && { ...found, x, y });
        }}
        onLeave={() => setHover(null)}
      >
        {hover && <Tip {...hover} width={element.current?.clientWidth ?? 0} />}
      </Canvas>
      <p class="muted note">
        The prediction is the simulator's. The second timeline: {module.measured}.
      </p>
      <div class="beside">
        {placed.map((lane) => (
          <Rows lane={lane} />
        ))}
      </div>
    </section>
  );
}
