/** Where the nodes of the graph are, with those that are expanded to their operators. */
import type { Module } from "./document";

export const WIDTH = 176;
export const HEIGHT = 36;
export const LINE = 20;
const GAP_X = 28;
const GAP_Y = 34;

export interface Node {
  x: number;
  y: number;
  height: number;
}

export interface Places {
  nodes: Node[];
  /** The tasks of each layer from left to right, and the layer's top. */
  layers: { top: number; height: number; tasks: number[] }[];
  left: number;
  right: number;
  bottom: number;
  /** The points of an edge, from its source's lower to its target's upper border. */
  route: (edge: number) => [number, number][];
}

export function places(module: Module, operators: number[][], expanded: Set<number>): Places {
  const { layers: layerOf, places: placeOf, edges, routes } = module.layout;
  const layers: Places["layers"] = [];
  layerOf.forEach((layer, task) => {
    (layers[layer] ??= { top: 0, height: HEIGHT, tasks: [] }).tasks.push(task);
  });
  const heights = layerOf.map((_, task) => (expanded.has(task) ? HEIGHT + 8 + LINE * operators[task].length : HEIGHT));
  let top = 0;
  for (const layer of layers) {
    layer.tasks.sort((a, b) => placeOf[a] - placeOf[b]);
    layer.top = top;
    layer.height = layer.tasks.reduce((most, task) => Math.max(most, heights[task]), HEIGHT);
    top += layer.height + GAP_Y;
  }
  const x = (place: number) => place * (WIDTH + GAP_X);
  const nodes = layerOf.map((layer, task) => ({ x: x(placeOf[task]), y: layers[layer].top, height: heights[task] }));
  const least = placeOf.reduce((a, b) => Math.min(a, b), 0);
  const most = placeOf.reduce((a, b) => Math.max(a, b), 0);
  const route = (edge: number): [number, number][] => {
    const [from, to] = edges[edge];
    const first = layerOf[from];
    const points: [number, number][] = [[nodes[from].x + WIDTH / 2, nodes[from].y + nodes[from].height]];
    routes[edge].forEach((place, index) => {
      const layer = layers[first + 1 + index];
      points.push([x(place) + WIDTH / 2, layer.top], [x(place) + WIDTH / 2, layer.top + layer.height]);
    });
    points.push([nodes[to].x + WIDTH / 2, nodes[to].y]);
    return points;
  };
  return { nodes, layers, left: x(least), right: x(most) + WIDTH, bottom: top - GAP_Y, route };
}
