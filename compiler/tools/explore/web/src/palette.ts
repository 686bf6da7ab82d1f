/** Colours: those of streams by Okabe and Ito (2008), which colour-blind people tell apart. */

const STREAMS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b9a900", "#7f7f7f"];

/** The colour of text on a stream's colour: the more legible of both. */
export const inkOn = (stream: number) => (stream % STREAMS.length === 0 ? "#ffffff" : "#101418");

export const streamColour = (stream: number) => STREAMS[stream % STREAMS.length];

/** The page's colours now, for drawings on a canvas. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of("text"),
    muted: of("muted"),
    line: of("line"),
    edge: of("edge"),
    surface: of("surface"),
    ground: of("ground"),
    accent: of("accent"),
    path: of("path"),
    shade: of("shade"),
  };
}

export const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
export const SMALL = FONT.replace("12px", "11px");
