/** A canvas of its parent's size, sharp on every screen, drawn again when anything changes. */
import { useEffect, useRef } from "preact/hooks";
import type { ComponentChildren } from "preact";

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;

interface Properties {
  label: string;
  draw: Draw;
  height?: number;
  className?: string;
  connect?: (canvas: HTMLCanvasElement) => (() => void) | void;
  onKeyDown?: (event: KeyboardEvent) => void;
  onClick?: (x: number, y: number, event: MouseEvent) => void;
  onDoubleClick?: (x: number, y: number) => void;
  onHover?: (x: number, y: number) => void;
  onLeave?: () => void;
  children?: ComponentChildren;
}

export function Canvas(properties: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const draw = useRef(properties.draw);
  draw.current = properties.draw;

  const paint = () => {
    if (!box.current || !canvas.current) return;
    const width = box.current.clientWidth;
    const height = box.current.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.current.width !== width * ratio || canvas.current.height !== height * ratio) {
      canvas.current.width = width * ratio;
      canvas.current.height = height * ratio;
    }
    const context = canvas.current.getContext("2d");
    if (!context || !width || !height) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    draw.current(context, width, height);
  };
  useEffect(paint);
  useEffect(() => {
    const observer = new ResizeObserver(paint);
    observer.observe(box.current!);
    const disconnect = properties.connect?.(canvas.current!);
    return () => {
      observer.disconnect();
      disconnect?.();
    };
  }, []);

  const at = (event: MouseEvent) => {
    const rect = canvas.current!.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top] as const;
  };
  return (
    <div
      class={`canvas ${properties.className ?? ""}`}
      ref={box}
      style={properties.height ? { height: `${properties.height}px` } : undefined}
    >
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={properties.label}
        onKeyDown={properties.onKeyDown}
        onClick={(event) => properties.onClick?.(...at(event), event)}
        onDblClick={(event) => properties.onDoubleClick?.(...at(event))}
        onMouseMove={(event) => properties.onHover?.(...at(event))}
        onMouseLeave={properties.onLeave}
      />
      {properties.children}
    </div>
  );
}

/** Text that ends with an ellipsis where it would be wider. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  const each = context.measureText("n").width;
  let length = Math.floor(width / each);
  while (length > 0 && context.measureText(text.slice(0, length) + "…").width > width) length--;
  return length > 1 ? text.slice(0, length) + "…" : "";
}
