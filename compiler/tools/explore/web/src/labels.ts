/** What tasks and kernels are called: by their operators, without conversions where there are others. */
import type { Module } from "./document";

export interface Labels {
  tasks: string[];
  kernels: Map<string, string>;
  /** The shape of the first result of each kernel. */
  shapes: Map<string, string>;
}

const known = new WeakMap<Module, Labels>();

/** A kernel's name without its signature. */
const named = (kernel: string) => kernel.replace(/_[0-9a-f]{12}$/, "").split("_");

function label(types: string[]): string {
  const distinct = [...new Set(types)];
  const others = distinct.filter((type) => type !== "Cast");
  return (others.length ? others : distinct).join(" · ");
}

export function labels(module: Module): Labels {
  let found = known.get(module);
  if (!found) {
    const types = module.tasks.map((): string[] => []);
    for (const each of module.operators) if (each.task !== null) types[each.task].push(each.type);
    const tasks = module.tasks.map((task, index) => label(types[index].length ? types[index] : named(task.kernel)));
    const kernels = new Map(module.kernels.map((kernel) => [kernel.name, label(named(kernel.name))]));
    const shapes = new Map(module.kernels.map((kernel) => [kernel.name, (kernel.writes[0] ?? "").replace(/^\w+\[|\]$/g, "").replaceAll(", ", "×")]));
    module.tasks.forEach((task, index) => kernels.set(task.kernel, tasks[index]));
    found = { tasks, kernels, shapes };
    known.set(module, found);
  }
  return found;
}
