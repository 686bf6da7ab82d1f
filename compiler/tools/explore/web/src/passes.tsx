/** The IR after each pass: what it changed, in numbers and side by side. */
import { diffArrays } from "diff";
import { useMemo, useState } from "preact/hooks";
import type { Pass } from "./document";
import { bytes, count, signed } from "./format";
import { useShared } from "./state";

/** Lines around a change. */
const AROUND = 3;
const MOST_LINES = 600;
/** Milliseconds after which a comparison is given up. */
const PATIENCE = 4000;

interface Line {
  kind: "same" | "changed" | "gap";
  left: string | null;
  right: string | null;
}

const NAMES = /%[\w$.-]+/g;

/** The lines of two texts next to each other; with `loose`, names of values do not matter. */
function sideBySide(before: string, after: string, loose: boolean): Line[] | null {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const key = (line: string) => (loose ? line.replace(NAMES, "%") : line);
  const parts = diffArrays(a.map(key), b.map(key), { timeout: PATIENCE });
  if (!parts) return null;
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  let removed: string[] = [];
  const flush = (added: string[]) => {
    for (let n = 0; n < Math.max(removed.length, added.length); n++) {
      lines.push({ kind: "changed", left: removed[n] ?? null, right: added[n] ?? null });
    }
    removed = [];
  };
  for (const part of parts) {
    if (part.removed) {
      removed = a.slice(i, (i += part.count));
    } else if (part.added) {
      flush(b.slice(j, (j += part.count)));
    } else {
      flush([]);
      for (let n = 0; n < part.count; n++) lines.push({ kind: "same", left: a[i++], right: b[j++] });
    }
  }
  flush([]);
  return lines;
}

/** Only changes and the lines around them. */
function folded(lines: Line[]): Line[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, index) => {
    if (line.kind === "changed") near.fill(1, Math.max(0, index - AROUND), index + AROUND + 1);
  });
  const found: Line[] = [];
  let skipped = 0;
  lines.forEach((line, index) => {
    if (near[index]) {
      if (skipped) found.push({ kind: "gap", left: `${skipped} equal lines`, right: null });
      skipped = 0;
      found.push(line);
    } else skipped++;
  });
  if (skipped) found.push({ kind: "gap", left: `${skipped} equal lines`, right: null });
  return found;
}

/** The text after a pass: its own, or that of the last pass that changed it. */
function textOf(passes: Pass[], index: number): string {
  while (index > 0 && passes[index].same) index--;
  return passes[index]?.text ?? "";
}

export function PassesView() {
  const { module, side } = useShared();
  const { passes } = module;
  const first = passes.findIndex((each, index) => index > 0 && !each.same);
  const [at, setAt] = useState(Math.max(0, first));
  const [loose, setLoose] = useState(true);
  const [whole, setWhole] = useState(false);
  const lines = useMemo(() => {
    if (at <= 0 || !passes.length || passes[at].same) return null;
    return sideBySide(textOf(passes, at - 1), textOf(passes, at), loose);
  }, [passes, at, loose]);
  if (!passes.length) {
    return (
      <section class="passes" aria-label="Passes">
        <h2>No dumps of the IR</h2>
        <p class="note">{side.note}</p>
        <pre class="source">flowloom explore MODEL -o page.html{"\n"}flowloom compile MODEL --dump-ir DIR     # the same dumps, as files</pre>
      </section>
    );
  }
  const names = Object.keys(passes[0].counts);
  const key = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(passes.length - 1, at + step));
    setAt(next);
    (event.currentTarget as HTMLElement).querySelectorAll("tr")[next + 1]?.focus();
  };
  const shown = lines && folded(lines);
  return (
    <section class="passes" aria-label="Passes">
      <div class="scroll list">
        <table class="rows" onKeyDown={key}>
          <thead>
            <tr>
              <th scope="col" class="number" />
              <th scope="col">pass</th>
              {names.map((name) => (
                <th scope="col" class="number">{name.replace(" bytes", "")}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {passes.map((each, index) => (
              <tr
                tabIndex={index === at ? 0 : -1}
                aria-selected={index === at}
                class={(index === at ? "chosen-row " : "") + (each.same ? "muted" : "")}
                onClick={() => setAt(index)}
              >
                <td class="number muted">{index}</td>
                <td class="code" title={each.spec}>{each.file.replace(/^\d+-|\.mlir$/g, "")}</td>
                {names.map((name) => {
                  const large = name.endsWith("bytes");
                  const change = index ? each.counts[name] - passes[index - 1].counts[name] : 0;
                  return (
                    <td class="number">
                      {change !== 0 && !large && <span class="change">{signed(change)}</span>}{" "}
                      <span class={each.counts[name] ? "" : "muted"}>
                        {large ? bytes(each.counts[name]) : count(each.counts[name])}
                      </span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="difference">
        <h2 class="code wrap">{passes[at].spec}</h2>
        <div class="tools">
          <label>
            <input type="checkbox" checked={loose} onChange={(event) => setLoose(event.currentTarget.checked)} /> ignore
            names of values
          </label>
          <label>
            <input type="checkbox" checked={whole} onChange={(event) => setWhole(event.currentTarget.checked)} /> whole
            text
          </label>
        </div>
        {whole ? (
          <pre class="source tall" tabIndex={0}>{textOf(passes, at)}</pre>
        ) : at === 0 ? (
          <p class="note">The imported model: nothing came before.</p>
        ) : passes[at].same ? (
          <p class="note">This pass changed nothing.</p>
        ) : shown === null ? (
          <p class="note">The two texts differ too much to be compared line by line: look at the whole text.</p>
        ) : (
          <div class="diff" tabIndex={0} role="table" aria-label="Differences, before and after">
            {shown.slice(0, MOST_LINES).map((line) => (
              <div role="row" class={line.kind}>
                <code role="cell">{line.left ?? ""}</code>
                {line.kind !== "gap" && <code role="cell">{line.right ?? ""}</code>}
              </div>
            ))}
            {shown.length > MOST_LINES && (
              <p class="note">{count(shown.length - MOST_LINES)} more lines differ: look at the whole text.</p>
            )}
            {lines!.every((line) => line.kind === "same") && <p class="note">Only names of values changed.</p>}
          </div>
        )}
      </div>
    </section>
  );
}
