/** The graph of tasks on a canvas: zoom, pan, expansion to operators, the critical path. */
import { select as selection } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform, type ZoomBehavior } from "d3-zoom";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, fitted } from "./canvas";
import { time } from "./format";
import { labels } from "./labels";
import { FONT, SMALL, colours, streamColour } from "./palette";
import { HEIGHT, LINE, WIDTH, places } from "./places";
import { taskTime } from "./spent";
import { useShared } from "./state";

/** Nodes that are drawn one by one; more are drawn as cells. */
const MOST_NODES = 1500;
const MOST_EDGES = 6000;

type Paint = "stream" | "time";

export function GraphView() {
  const { module, task, select, found, theme } = useShared();
  const [expanded, setExpanded] = useState(new Set<number>());
  const [paint, setPaint] = useState<Paint>("stream");
  const [path, setPath] = useState(true);
  const view = useRef<ZoomTransform>(zoomIdentity);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | null>(null);
  const element = useRef<HTMLCanvasElement | null>(null);
  const [, redraw] = useState(0);
  void theme;

  const operators = useMemo(() => {
    const lists = module.tasks.map((): number[] => []);
    module.operators.forEach((each, index) => each.task !== null && lists[each.task].push(index));
    return lists;
  }, [module]);
  const graph = useMemo(() => places(module, operators, expanded), [module, operators, expanded]);
  const slowest = useMemo(() => module.tasks.reduce((most, each) => Math.max(most, taskTime(module, each)), 1), [module]);
  const names = labels(module).tasks;
  const hits = useMemo(() => (found ? new Set(found) : null), [found]);
  const current = useRef(graph);
  current.current = graph;

  const size = () => [element.current?.clientWidth ?? 1, element.current?.clientHeight ?? 1];
  const move = (transform: ZoomTransform) => {
    if (element.current && behaviour.current) behaviour.current.transform(selection(element.current), transform);
  };
  const fit = (whole: boolean) => {
    const [width, height] = size();
    const { left, right, bottom } = current.current;
    let scale = (width - 90) / (right - left);
    if (whole) scale = Math.min(scale, (height - 40) / bottom);
    scale = Math.min(1.1, whole ? scale : Math.max(scale, 0.45));
    const middle = whole || (right - left) * scale <= width ? (left + right) / 2 : current.current.nodes[0]?.x + WIDTH / 2;
    move(zoomIdentity.translate(width / 2 - middle * scale, whole ? (height - bottom * scale) / 2 : 24).scale(scale));
  };
  const centre = (index: number) => {
    const node = current.current.nodes[index];
    if (!node) return;
    const [width, height] = size();
    const { k, x, y } = view.current;
    const inside =
      k >= 0.4 &&
      node.x * k + x > 20 &&
      (node.x + WIDTH) * k + x < width - 20 &&
      node.y * k + y > 20 &&
      (node.y + HEIGHT) * k + y < height - 20;
    if (inside) return;
    const scale = Math.max(k, 0.8);
    move(zoomIdentity.translate(width / 2 - (node.x + WIDTH / 2) * scale, height / 2 - node.y * scale).scale(scale));
  };
  useEffect(() => {
    if (task !== null) centre(task);
  }, [task]);

  const connect = (canvas: HTMLCanvasElement) => {
    element.current = canvas;
    behaviour.current = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([0.004, 3])
      .on("zoom", (event: { transform: ZoomTransform }) => {
        view.current = event.transform;
        redraw((value) => value + 1);
      });
    selection(canvas).call(behaviour.current).on("dblclick.zoom", null);
    if (task === null) fit(false);
    else centre(task);
  };

  const at = (px: number, py: number): number | null => {
    const { k, x, y } = view.current;
    const [gx, gy] = [(px - x) / k, (py - y) / k];
    for (const layer of visible(gy, gy)) {
      for (const index of layer.tasks) {
        const node = graph.nodes[index];
        if (gx >= node.x && gx <= node.x + WIDTH && gy >= node.y && gy <= node.y + node.height) return index;
      }
    }
    return null;
  };
  const visible = (top: number, bottom: number) => {
    const { layers } = graph;
    let [low, high] = [0, layers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (layers[middle].top + layers[middle].height < top) low = middle + 1;
      else high = middle;
    }
    let end = low;
    while (end < layers.length && layers[end].top <= bottom) end++;
    return layers.slice(low, end);
  };
  const toggle = (index: number) => {
    if (!operators[index].length) return;
    const next = new Set(expanded);
    if (!next.delete(index)) next.add(index);
    setExpanded(next);
  };

  const colour = (index: number) => {
    const each = module.tasks[index];
    if (paint === "stream") return streamColour(each.stream);
    const share = Math.sqrt(taskTime(module, each) / slowest);
    return `color-mix(in oklab, #d55e00 ${Math.round(100 * share)}%, #56b4e9)`;
  };

  const draw = (context: CanvasRenderingContext2D, width: number, height: number) => {
    const c = colours();
    const { k, x, y } = view.current;
    const [top, bottom] = [-y / k, (height - y) / k];
    const [left, right] = [-x / k, (width - x) / k];
    const shown = visible(top, bottom).flatMap((layer) =>
      layer.tasks.filter((index) => graph.nodes[index].x + WIDTH >= left && graph.nodes[index].x <= right),
    );
    context.save();
    context.translate(x, y);
    context.scale(k, k);
    const small = k < 0.22 || shown.length > MOST_NODES;
    drawEdges(context, c, top, bottom, shown.length > MOST_NODES);
    let drawn = shown.length;
    if (shown.length > MOST_NODES) drawn = drawCells(context, shown, k);
    else for (const index of shown) drawNode(context, c, index, small, k);
    context.restore();
    drawMap(context, c, width, height);
    context.canvas.dataset.drawn = String(drawn);
    context.canvas.dataset.shown = String(shown.length);
  };

  const drawEdges = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    top: number,
    bottom: number,
    many: boolean,
  ) => {
    const { edges } = module.layout;
    const near = task === null ? [] : [task];
    let count = 0;
    const lines = (wanted: (from: number, to: number) => boolean, style: string, wide: number, bound: number) => {
      context.beginPath();
      for (let edge = 0; edge < edges.length && count < bound; edge++) {
        const [from, to] = edges[edge];
        if (graph.nodes[from].y > bottom || graph.nodes[to].y < top || !wanted(from, to)) continue;
        curve(context, graph.route(edge));
        count++;
      }
      context.strokeStyle = style;
      context.lineWidth = wide;
      context.stroke();
    };
    const critical = (from: number, to: number) => onPath.has(`${from} ${to}`);
    const thin = Math.max(1.2, 0.6 / view.current.k);
    if (!many) lines((from, to) => !(path && critical(from, to)), c.edge, thin, MOST_EDGES);
    count = 0;
    if (path) lines(critical, c.path, Math.max(2.6, 1.6 / view.current.k), MOST_EDGES);
    for (const each of near) lines((from, to) => from === each || to === each, c.accent, Math.max(2, 1.2 / view.current.k), MOST_EDGES);
  };

  const onPath = useMemo(() => {
    const order = module.tasks.flatMap((each, index) => (each.critical ? [index] : []));
    return new Set(order.slice(1).map((to, index) => `${order[index]} ${to}`));
  }, [module]);

  const drawNode = (
    context: CanvasRenderingContext2D,
    c: ReturnType<typeof colours>,
    index: number,
    small: boolean,
    k: number,
  ) => {
    const node = graph.nodes[index];
    const each = module.tasks[index];
    const lit = path && each.critical;
    context.globalAlpha = hits && !hits.has(index) ? 0.22 : 1;
    if (small) {
      context.fillStyle = colour(index);
      context.fillRect(node.x, node.y, WIDTH, node.height);
    } else {
      context.beginPath();
      context.roundRect(node.x, node.y, WIDTH, node.height, 5);
      context.fillStyle = c.surface;
      context.fill();
      context.strokeStyle = lit ? c.path : c.line;
      context.lineWidth = lit ? 2 : 1;
      context.stroke();
      context.beginPath();
      context.roundRect(node.x, node.y, 6, node.height, [5, 0, 0, 5]);
      context.fillStyle = colour(index);
      context.fill();
      context.textBaseline = "middle";
      context.font = FONT;
      context.fillStyle = c.text;
      context.fillText(fitted(context, names[index], WIDTH - 22), node.x + 14, node.y + 12);
      context.font = SMALL;
      context.fillStyle = c.muted;
      const size = each.writes[0]?.shape.join("×") ?? "";
      const duration = time(taskTime(module, each));
      const wide = context.measureText(duration).width;
      context.fillText(fitted(context, size, WIDTH - 34 - wide), node.x + 14, node.y + 26);
      context.textAlign = "right";
      context.fillText(duration, node.x + WIDTH - 8, node.y + 26);
      context.textAlign = "left";
      if (expanded.has(index)) drawOperators(context, c, index);
    }
    if (index === task) {
      context.beginPath();
      context.roundRect(node.x - 3, node.y - 3, WIDTH + 6, node.height + 6, 7);
      context.strokeStyle = c.accent;
      context.lineWidth = Math.max(2.5, 2 / k);
      context.stroke();
    }
    context.globalAlpha = 1;
  };

  const drawOperators = (context: CanvasRenderingContext2D, c: ReturnType<typeof colours>, index: number) => {
    const node = graph.nodes[index];
    const list = operators[index];
    list.forEach((number, line) => {
      const operator = module.operators[number];
      const y = node.y + HEIGHT + 2 + line * LINE;
      context.beginPath();
      context.roundRect(node.x + 14, y, WIDTH - 22, LINE - 4, 3);
      context.fillStyle = c.shade;
      context.fill();
      context.font = SMALL;
      context.fillStyle = c.text;
      context.fillText(fitted(context, operator.type, 80), node.x + 20, y + 8.5);
      context.textAlign = "right";
      context.fillStyle = c.muted;
      const type = (operator.outputs[0] ?? "").replace(/^tensor<([^,>]*).*$/, "$1");
      context.fillText(fitted(context, type, WIDTH - 118), node.x + WIDTH - 14, y + 8.5);
      context.textAlign = "left";
    });
  };

  /** Tasks as cells of a grid, so coarse that there are at most `MOST_NODES`. */
  const drawCells = (context: CanvasRenderingContext2D, shown: number[], k: number) => {
    let cell = 4;
    let cells = new Map<string, number>();
    do {
      cell *= 1.5;
      cells = new Map();
      const side = cell / k;
      for (const index of shown) {
        const node = graph.nodes[index];
        const key = `${Math.floor((node.x + WIDTH / 2) / side)},${Math.floor(node.y / side)}`;
        const old = cells.get(key);
        if (old === undefined || (hits && hits.has(index) && !hits.has(old))) cells.set(key, index);
      }
    } while (cells.size > MOST_NODES);
    const side = cell / k;
    for (const [key, index] of cells) {
      const [column, row] = key.split(",").map(Number);
      context.globalAlpha = hits && !hits.has(index) ? 0.22 : 1;
      context.fillStyle = index === task ? colours().accent : colour(index);
      context.fillRect(column * side, row * side, side * 0.85, side * 0.85);
    }
    context.globalAlpha = 1;
    return cells.size;
  };

  /** The whole graph in a corner, with what is in view. */
  const drawMap = (context: CanvasRenderingContext2D, c: ReturnType<typeof colours>, width: number, height: number) => {
    const [w, h] = [110, Math.min(height - 24, 420)];
    const scale = Math.min(w / (graph.right - graph.left), h / graph.bottom);
    const [x0, y0] = [width - w - 12 + (w - (graph.right - graph.left) * scale) / 2, 12];
    context.fillStyle = c.ground;
    context.globalAlpha = 0.88;
    context.fillRect(width - w - 18, 6, w + 12, graph.bottom * scale + 12);
    context.globalAlpha = 1;
    const taken = new Set<string>();
    module.tasks.forEach((_, index) => {
      const node = graph.nodes[index];
      const [px, py] = [Math.round(x0 + (node.x - graph.left) * scale), Math.round(y0 + node.y * scale)];
      const key = `${px},${py}`;
      if (taken.has(key)) return;
      taken.add(key);
      context.fillStyle = hits && !hits.has(index) ? c.line : colour(index);
      context.fillRect(px, py, Math.max(1.5, WIDTH * scale), Math.max(1.5, HEIGHT * scale));
    });
    const t = view.current;
    context.strokeStyle = c.accent;
    context.lineWidth = 1.5;
    const box = [(-t.x / t.k - graph.left) * scale, (-t.y / t.k) * scale, (width / t.k) * scale, (height / t.k) * scale];
    const [bx, by] = [Math.max(x0 + box[0], width - w - 18), Math.max(y0 + box[1], 6)];
    const right = Math.min(x0 + box[0] + box[2], width - 7);
    const lower = Math.min(y0 + box[1] + box[3], graph.bottom * scale + 18);
    if (right > bx && lower > by) context.strokeRect(bx, by, right - bx, lower - by);
  };

  const key = (event: KeyboardEvent) => {
    const canvas = element.current;
    if (!canvas || !behaviour.current) return;
    if (event.key === "+" || event.key === "=") behaviour.current.scaleBy(selection(canvas), 1.3);
    else if (event.key === "-") behaviour.current.scaleBy(selection(canvas), 1 / 1.3);
    else if (event.key === "0") fit(true);
    else if (event.key === "Enter" && task !== null) toggle(task);
    else if (event.key === "Escape") select(null);
    else if (event.key.startsWith("Arrow")) step(event.key);
    else return;
    event.preventDefault();
  };
  const step = (direction: string) => {
    if (!module.tasks.length) return;
    if (task === null) return select(0);
    const { edges, layers } = module.layout;
    const row = graph.layers[layers[task]].tasks;
    const nearest = (tasks: number[]) =>
      tasks.sort((a, b) => Math.abs(graph.nodes[a].x - graph.nodes[task].x) - Math.abs(graph.nodes[b].x - graph.nodes[task].x))[0];
    const moves: Record<string, () => number | undefined> = {
      ArrowDown: () => nearest(edges.filter(([from]) => from === task).map(([, to]) => to)),
      ArrowUp: () => nearest(edges.filter(([, to]) => to === task).map(([from]) => from)),
      ArrowLeft: () => row[row.indexOf(task) - 1],
      ArrowRight: () => row[row.indexOf(task) + 1],
    };
    const next = moves[direction]?.();
    if (next !== undefined) select(next);
  };

  const all = operators.some((list) => list.length);
  return (
    <section class="graph" aria-label="Graph">
      <div class="tools">
        <button onClick={() => fit(true)}>Whole graph</button>
        <button onClick={() => fit(false)}>Readable</button>
        <button
          disabled={!all}
          title={all ? "" : "operators are known when explore is given a model"}
          onClick={() => setExpanded(expanded.size ? new Set() : new Set(module.tasks.keys()))}
        >
          {expanded.size ? "Collapse all" : "Expand all"}
        </button>
        <label>
          <input type="checkbox" checked={path} onChange={(event) => setPath(event.currentTarget.checked)} /> critical path
        </label>
        <label>
          colour by{" "}
          <select value={paint} onChange={(event) => setPaint(event.currentTarget.value as Paint)}>
            <option value="stream">stream</option>
            <option value="time">time</option>
          </select>
        </label>
        {paint === "stream" && (
          <span class="legend">
            {Array.from({ length: Math.min(module.streams, 8) }, (_, stream) => (
              <span>
                <span class="swatch" style={{ background: streamColour(stream) }} /> stream {stream}
              </span>
            ))}
          </span>
        )}
        <span class="space" />
        <span class="muted help">scroll zooms, drag pans, a double click shows operators</span>
      </div>
      <Canvas
        label={`Graph of ${module.tasks.length} tasks. Arrow keys select along edges, Enter expands, plus and minus zoom, 0 shows all.`}
        draw={draw}
        connect={connect}
        onKeyDown={key}
        onClick={(x, y) => select(at(x, y))}
        onDoubleClick={(x, y) => {
          const index = at(x, y);
          if (index !== null) toggle(index);
        }}
      />
    </section>
  );
}

function curve(context: CanvasRenderingContext2D, points: [number, number][]) {
  context.moveTo(...points[0]);
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1];
    const [bx, by] = points[i];
    if (i % 2 === 0) context.lineTo(bx, by);
    else {
      const half = (ay + by) / 2;
      context.bezierCurveTo(ax, half, bx, half, bx, by);
    }
  }
}
