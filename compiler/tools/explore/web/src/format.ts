/** Numbers with their units, for people. */

const digits = (value: number, most: number) =>
  value.toLocaleString("en", { minimumFractionDigits: most, maximumFractionDigits: most });

/** Nanoseconds in µs, or in ms from 10 ms on. */
export function time(ns: number): string {
  if (ns >= 1e7) return `${digits(ns / 1e6, 2)}\u00a0ms`;
  return `${digits(ns / 1e3, ns >= 1e5 ? 1 : 2)}\u00a0µs`;
}

/** Nanoseconds in µs without the unit, for columns whose head has it. */
export const micros = (ns: number) => digits(ns / 1e3, 2);

export function bytes(value: number): string {
  if (value < 1024) return `${value}\u00a0B`;
  if (value < 1 << 20) return `${digits(value / 1024, 1)}\u00a0KiB`;
  if (value < 1 << 30) return `${digits(value / (1 << 20), 2)}\u00a0MiB`;
  return `${digits(value / (1 << 30), 2)}\u00a0GiB`;
}

/** FLOPs in a ns are GFLOP/s. */
export function rate(gflops: number): string {
  return gflops >= 1e3 ? `${digits(gflops / 1e3, 1)}\u00a0TFLOP/s` : `${digits(gflops, 1)}\u00a0GFLOP/s`;
}

export function flops(value: number): string {
  if (value >= 1e9) return `${digits(value / 1e9, 2)}\u00a0GFLOP`;
  return value >= 1e6 ? `${digits(value / 1e6, 2)}\u00a0MFLOP` : `${digits(value / 1e3, 1)}\u00a0kFLOP`;
}

/** Round places for the marks of an axis of bytes: multiples of a power of two. */
export function byteTicks(most: number, wanted: number): number[] {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, most) / wanted));
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
}

export const percent = (part: number) => `${digits(100 * part, 1)}\u00a0%`;
export const count = (value: number) => value.toLocaleString("en");
export const signed = (value: number) => (value > 0 ? "+" : value < 0 ? "−" : "±") + count(Math.abs(value));
export const shape = (dims: number[]) => (dims.length ? dims.join(" × ") : "scalar");
