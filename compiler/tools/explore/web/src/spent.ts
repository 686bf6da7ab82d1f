/** The time that kernels take: that of a CPU's measured run, else alone on the device. */
import type { Kernel, Module, Task } from "./document";

const known = new WeakMap<Module, Map<string, number>>();

/** Whether the module's times are those of a run that was measured on a CPU. */
export const ranHere = (module: Module) => module.threads > 0;

/** The nanoseconds of the measured run; null where none was measured on a CPU. */
export const measuredRun = (module: Module) =>
  ranHere(module) ? module.tasks.reduce((most, task) => Math.max(most, task.measured?.[1] ?? 0), 0) : null;

/** The nanoseconds of a task. */
export const taskTime = (module: Module, { measured, alone }: Task) =>
  ranHere(module) && measured ? measured[1] - measured[0] : alone;

/** The nanoseconds of all of a kernel's tasks. */
export function spent(module: Module, kernel: Kernel): number {
  return ranHere(module) ? measuredTimes(module).get(kernel.name) ?? 0 : kernel.time;
}

function measuredTimes(module: Module): Map<string, number> {
  let found = known.get(module);
  if (!found) {
    found = new Map();
    for (const { kernel, measured } of module.tasks) {
      if (measured) found.set(kernel, (found.get(kernel) ?? 0) + measured[1] - measured[0]);
    }
    known.set(module, found);
  }
  return found;
}
