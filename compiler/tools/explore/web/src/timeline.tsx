/** When each task runs: a row a stream, predicted and measured, with the waits between streams. */
import { scaleLinear } from "d3-scale";
import { select as selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomBehavior, type ZoomTransform } from "d3-zoom";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, fitted } from "./canvas";
import { micros, time } from "./format";
import { labels } from "./labels";
import { FONT, SMALL, colours, inkOn, streamColour } from "./palette";
import { useShared } from "./state";

const ROW = 30;
const BAR = 22;
const HEAD = 30;
const TITLE = 24;
const LEFT = 92;
/** Waits in view that are drawn; of more only those of the selected task. */
const MOST_WAITS = 600;

interface Lane {
  title: string;
  top: number;
  spans: (index: number) => [number, number] | null;
}

export function TimelineView() {
  const { module, task, select, found, theme } = useShared();
  void theme;
  const view = useRef<ZoomTransform>(zoomIdentity);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  const element = useRef<HTMLCanvasElement | null>(null);
  const [hover, setHover] = useState<{ index: number; x: number; y: number } | null>(null);
  const [waits, setWaits] = useState(true);
  const [, redraw] = useState(0);
  const names = labels(module).tasks;
  const hits = useMemo(() => (found ? new Set(found) : null), [found]);
  const measured = module.tasks.some((each) => each.measured);
  const lanes: Lane[] = [
    { title: "predicted", top: HEAD, spans: (i) => [module.tasks[i].start, module.tasks[i].end] },
  ];
  if (measured) {
    lanes.push({ title: "measured", top: HEAD + TITLE + module.streams * ROW + 16, spans: (i) => module.tasks[i].measured });
  }
  const height = lanes[lanes.length - 1].top + TITLE + module.streams * ROW + 12;
  const last = useMemo(
    () => module.tasks.reduce((most, each) => Math.max(most, each.end, each.measured?.[1] ?? 0), 1),
    [module],
  );
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

  const rows = useMemo(() => {
    const found: number[][] = Array.from({ length: module.streams }, () => []);
    module.tasks.forEach((each, index) => found[each.stream].push(index));
    return found;
  }, [module]);

  const draw = (context: CanvasRenderingContext2D, width: number, height: number) => {
    const c = colours();
    const x = scale(width);
    drawAxis(context, c, x, width, height);
    let drawn = 0;
    for (const lane of lanes) {
      context.font = FONT;
      context.fillStyle = c.text;
      context.textBaseline = "middle";
      context.fillText(lane.title, 12, lane.top + TITLE / 2);
      if (waits) drawWaits(context, c, lane, x, width);
      rows.forEach((tasks, stream) => {
        const top = lane.top + TITLE + stream * ROW + (ROW - BAR) / 2;
        context.font = SMALL;
        context.fillStyle = c.muted;
        context.fillText(`stream ${stream}`, 12, top + BAR / 2);
        drawn += drawRow(context, c, lane, tasks, top, x, width);
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
      context.fillText(`${+(tick / 1e3).toFixed(3)} µs`, at, 12);
    }
    context.textAlign = "left";
  };

  const drawRow = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    lane: Lane,
    tasks: number[],
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
    for (const index of tasks) {
      const span = lane.spans(index);
      if (!span) continue;
      const [from, to] = [x(span[0]), x(span[1])];
      if (to < LEFT || from > width || (to < free && index !== task)) continue;
      const wide = Math.max(1, to - from - 0.5);
      free = from + 1;
      drawn++;
      const each = module.tasks[index];
      context.globalAlpha = hits && !hits.has(index) ? 0.2 : 1;
      context.fillStyle = streamColour(each.stream);
      context.beginPath();
      context.roundRect(from, top, wide, BAR, Math.min(3, wide / 2));
      context.fill();
      if (each.critical && wide > 3) {
        context.fillStyle = c.path;
        context.fillRect(from, top + BAR - 3, wide, 3);
      }
      if (wide > 34) {
        context.font = SMALL;
        context.fillStyle = inkOn(each.stream);
        context.fillText(fitted(context, names[index], wide - 10), from + 5, top + BAR / 2 - 0.5);
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
    lane: Lane,
    x: ReturnType<typeof scale>,
    width: number,
  ) => {
    const shown = waitsIn(lane, x, width);
    const middle = (stream: number) => lane.top + TITLE + stream * ROW + ROW / 2;
    const many = shown.length > MOST_WAITS;
    if (many) {
      context.fillStyle = c.muted;
      context.font = SMALL;
      context.fillText(`${shown.length.toLocaleString("en")} waits are in view: zoom in to see them`, LEFT, lane.top + TITLE / 2);
    }
    for (const { other, index, ax, bx } of shown) {
      const mine = index === task || other === task;
      if (many && !mine) continue;
      const [ay, by] = [middle(module.tasks[other].stream), middle(module.tasks[index].stream)];
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

  /** The waits between streams that are in view, with the places of both ends. */
  const waitsIn = (lane: Lane, x: ReturnType<typeof scale>, width: number) =>
    module.tasks.flatMap((each, index) =>
      each.after.flatMap((other) => {
        const [from, to] = [lane.spans(other), lane.spans(index)];
        if (!from || !to || module.tasks[other].stream === each.stream) return [];
        const [ax, bx] = [x(from[1]), x(to[0])];
        return bx < LEFT || ax > width || ax < LEFT ? [] : [{ other, index, ax, bx }];
      }),
    );

  const at = (px: number, py: number): number | null => {
    const canvas = element.current;
    if (!canvas) return null;
    const x = scale(canvas.clientWidth);
    for (const lane of lanes) {
      const stream = Math.floor((py - lane.top - TITLE) / ROW);
      for (const index of rows[stream] ?? []) {
        const span = lane.spans(index);
        if (span && px >= x(span[0]) - 1 && px <= Math.max(x(span[1]), x(span[0]) + 2) && px >= LEFT) return index;
      }
    }
    return null;
  };

  const key = (event: KeyboardEvent) => {
    const canvas = element.current;
    if (!canvas || !behaviour.current) return;
    const inRow = task === null ? [] : rows[module.tasks[task].stream];
    const near = (stream: number) => {
      const row = rows[stream];
      if (!row?.length || task === null) return undefined;
      const start = module.tasks[task].start;
      return row.reduce((a, b) => (Math.abs(module.tasks[b].start - start) < Math.abs(module.tasks[a].start - start) ? b : a));
    };
    const next: Record<string, () => number | undefined> = {
      ArrowRight: () => (task === null ? 0 : inRow[inRow.indexOf(task) + 1]),
      ArrowLeft: () => (task === null ? 0 : inRow[inRow.indexOf(task) - 1]),
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
        <span class="legend">
          <span>
            <span class="swatch path" /> critical path
          </span>
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
        onClick={(x, y) => select(at(x, y))}
        onHover={(x, y) => {
          const index = at(x, y);
          setHover(index === null ? null : { index, x, y });
        }}
        onLeave={() => setHover(null)}
      >
        {hover && <Tip {...hover} />}
      </Canvas>
      <p class="muted note">
        The prediction is the simulator's. The second timeline: {module.measured}.
      </p>
      <Streams />
    </section>
  );

  function Tip({ index, x, y }: { index: number; x: number; y: number }) {
    const each = module.tasks[index];
    const right = x > (element.current?.clientWidth ?? 0) - 300;
    return (
      <div class="tip" style={{ left: `${right ? x - 280 : x + 14}px`, top: `${y + 14}px` }}>
        <b>{names[index]}</b>
        <div>
          task {index}, stream {each.stream}, {micros(each.start)} to {micros(each.end)} µs
        </div>
        <div>alone {time(each.alone)}{each.measured ? `, measured ${time(each.measured[1] - each.measured[0])}` : ""}</div>
        <div class="muted">{each.nodes.slice(0, 4).join(", ")}{each.nodes.length > 4 ? ", …" : ""}</div>
      </div>
    );
  }

  function Streams() {
    return (
      <table class="rows narrow">
        <caption>Streams</caption>
        <thead>
          <tr>
            <th scope="col">stream</th>
            <th scope="col" class="number">tasks</th>
            <th scope="col" class="number">busy, µs</th>
            <th scope="col" class="number">of the run</th>
            <th scope="col" class="number">waits for others</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((tasks, stream) => {
            const busy = tasks.reduce((sum, i) => sum + module.tasks[i].end - module.tasks[i].start, 0);
            const waits = tasks.reduce((sum, i) => sum + module.tasks[i].after.length, 0);
            return (
              <tr>
                <td>
                  <span class="swatch" style={{ background: streamColour(stream) }} /> {stream}
                </td>
                <td class="number">{tasks.length}</td>
                <td class="number">{micros(busy)}</td>
                <td class="number">{((100 * busy) / module.makespan).toFixed(1)} %</td>
                <td class="number">{waits}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    );
  }
}
