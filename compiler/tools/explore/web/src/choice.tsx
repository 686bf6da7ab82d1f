/** Which schedules competed, and why one was chosen. */
import { scaleLinear } from "d3-scale";
import { Row } from "./details";
import { micros, time } from "./format";
import { spent } from "./spent";
import { useShared } from "./state";
import { Tiles } from "./tiles";

export interface Mark {
  name: string;
  value: number | null;
  low?: number | null;
  high?: number | null;
  other?: number | null;
  note: string;
  chosen: boolean;
}

export function ChoiceView() {
  const { module } = useShared();
  const { choice } = module;
  const candidates: Mark[] = choice.candidates.map((each) => ({
    name: each.name,
    value: each.median ?? each.predicted,
    low: each.low,
    high: each.high,
    other: each.median === null ? null : each.predicted,
    note: each.note,
    chosen: each.chosen,
  }));
  const policies: Mark[] = choice.policies.map(([name, value]) => ({ name, value, note: "", chosen: false }));
  const bounds: [string, number][] = Object.entries(choice.bound);
  const measured = choice.candidates.some((each) => each.median !== null);
  return (
    <section class="choice" aria-label="Choice">
      <p class="lead">{choice.sentence}</p>
      {choice.search && <p class="lead">{choice.search}</p>}
      <div class={candidates.length + policies.length > 0 ? "two" : "narrow-facts"}>
        <div>
          {candidates.length > 0 && (
            <Plot
              title={measured ? "Candidates: measured median and 95 % interval; a ring is the prediction" : "Candidates: predicted time"}
              marks={candidates}
              bounds={[]}
            />
          )}
          {policies.length > 0 && <Plot title="Policies: simulated time" marks={policies} bounds={bounds} />}
        </div>
        <div class="side">
          {choice.facts.length > 0 && (
            <table class="facts">
              <tbody>
                {choice.facts.map(([name, value]) => (
                  <Row name={name} value={value} />
                ))}
                {bounds.map(([name, value]) => (
                  <Row name={`bound by ${name}`} value={time(value)} />
                ))}
              </tbody>
            </table>
          )}
          <Provenance />
        </div>
      </div>
      <Tiles />
    </section>
  );

  function Provenance() {
    const groups = new Map<string, [number, number]>();
    for (const kernel of module.kernels) {
      const [n, t] = groups.get(kernel.provenance) ?? [0, 0];
      groups.set(kernel.provenance, [n + 1, t + spent(module, kernel)]);
    }
    return (
      <table class="rows">
        <caption>Where kernels' configurations come from</caption>
        <thead>
          <tr>
            <th scope="col">provenance</th>
            <th scope="col" class="number">kernels</th>
            <th scope="col" class="number">time, µs</th>
          </tr>
        </thead>
        <tbody>
          {[...groups].sort((a, b) => b[1][1] - a[1][1]).map(([name, [n, t]]) => (
            <tr>
              <td>{name}</td>
              <td class="number">{n}</td>
              <td class="number">{micros(t)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    );
  }
}

export function Plot({ title, marks, bounds }: { title: string; marks: Mark[]; bounds: [string, number][] }) {
  const [width, row, left, right] = [900, 22, 250, 96];
  const height = marks.length * row + 46;
  const values = marks.flatMap((m) => [m.value, m.high, m.other]).filter((v): v is number => v != null);
  const x = scaleLinear([0, Math.max(1, ...values)], [left, width - right]).nice();
  return (
    <figure class="plot">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={title}>
        {x.ticks(6).map((t) => (
          <g>
            <line class="grid" x1={x(t)} x2={x(t)} y1={4} y2={height - 34} />
            <text x={x(t)} y={height - 18} text-anchor="middle">{+(t / 1e3).toFixed(2)} µs</text>
          </g>
        ))}
        {bounds.map(([name, value]) => (
          <g>
            <line class="bound" x1={x(value)} x2={x(value)} y1={4} y2={height - 34} />
            <text x={x(value)} y={height - 3} text-anchor="middle">bound by {name}</text>
          </g>
        ))}
        {marks.map((mark, index) => {
          const y = index * row + 16;
          return (
            <g class={mark.chosen ? "chosen-mark" : ""}>
              <text x={left - 10} y={y + 4} text-anchor="end">{mark.chosen ? "✓ " : ""}{mark.name}</text>
              {mark.value !== null && <line class="stem" x1={x(0)} x2={x(mark.value)} y1={y} y2={y} />}
              {mark.low != null && mark.high != null && <line class="interval" x1={x(mark.low)} x2={x(mark.high)} y1={y} y2={y} />}
              {mark.other != null && <circle class="ring" cx={x(mark.other)} cy={y} r={4.5} />}
              {mark.value !== null && <circle class="dot" cx={x(mark.value)} cy={y} r={4.5} />}
              <text x={width - 4} y={y + 4} text-anchor="end">{mark.value === null ? "skipped" : time(mark.value)}</text>
              <title>{`${mark.name} ${mark.note}`}</title>
              {mark.note && mark.value !== null && <text class="muted-text" x={x(mark.value) + 10} y={y + 4}>{mark.note}</text>}
            </g>
          );
        })}
      </svg>
    </figure>
  );
}
