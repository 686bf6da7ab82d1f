/** The page: its head with figures, tabs, the view, and what is selected. */
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { ChoiceView } from "./choice";
import { CompareView } from "./compare";
import { Details } from "./details";
import type { ExploreDocument } from "./document";
import { bytes, count, time } from "./format";
import { GraphView } from "./graph";
import { KernelsView } from "./kernels";
import { MemoryView } from "./memory";
import { OutlineView } from "./outline";
import { PassesView } from "./passes";
import { Search } from "./search";
import { measuredRun, ranHere } from "./spent";
import { SharedContext } from "./state";
import { TimelineView } from "./timeline";

interface Tab {
  name: string;
  view: ComponentType;
  /** Whether the selected task is shown next to it. */
  details: boolean;
}

const TABS: Tab[] = [
  { name: "Graph", view: GraphView, details: true },
  { name: "Timeline", view: TimelineView, details: true },
  { name: "Memory", view: MemoryView, details: false },
  { name: "Kernels", view: KernelsView, details: false },
  { name: "Passes", view: PassesView, details: false },
  { name: "Choice", view: ChoiceView, details: false },
];
const OUTLINE: Tab = { name: "Outline", view: OutlineView, details: false };
const COMPARE: Tab = { name: "Compare", view: CompareView, details: false };

/** The theme that the user chose, else the system's; light on paper. */
function useTheme(): [string, () => void] {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const [chosen, setChosen] = useState<string | null>(null);
  const [, changed] = useState(0);
  useEffect(() => {
    const again = () => changed((value) => value + 1);
    for (const query of [dark, paper]) query.addEventListener("change", again);
    return () => [dark, paper].forEach((query) => query.removeEventListener("change", again));
  }, []);
  const screen = chosen ?? (dark.matches ? "dark" : "light");
  const theme = paper.matches ? "light" : screen;
  document.documentElement.dataset.theme = theme;
  return [theme, () => setChosen(screen === "dark" ? "light" : "dark")];
}

export function App({ document: found }: { document: ExploreDocument }) {
  const graphs = useMemo(
    () => found.sides.flatMap((side, s) => side.modules.map((_, m) => ({ side: s, module: m }))),
    [found],
  );
  const [graph, setGraph] = useState(0);
  const side = found.sides[graphs[graph].side];
  const module = side.modules[graphs[graph].module];
  const tabs = [
    ...(found.sides.length > 1 ? [COMPARE] : []),
    ...(side.steps.length ? [OUTLINE] : []),
    ...TABS,
  ];
  const [name, show] = useState(tabs[0].name);
  const tab = tabs.find((each) => each.name === name) ?? tabs[0];
  const [task, select] = useState<number | null>(null);
  const [hits, setHits] = useState<number[] | null>(null);
  const [theme, toggle] = useTheme();
  const choose = useCallback((task: number) => {
    select(task);
    show((current) => (current === "Timeline" ? current : "Graph"));
  }, []);
  useEffect(() => select(null), [module]);
  const shared = { document: found, side, module, task, select, found: hits, theme, show };
  return (
    <SharedContext.Provider value={shared}>
      <header>
        <div class="bar">
          <span class="mark" aria-hidden="true" />
          <h1>{side.title}</h1>
          <span class="chip">{module.target}</span>
          {graphs.length > 1 && (
            <select
              aria-label="Graph that the views show"
              value={graph}
              onChange={(event) => setGraph(Number(event.currentTarget.value))}
            >
              {graphs.map((each, index) => (
                <option value={index}>
                  {found.sides.length > 1 ? `${"AB"[each.side]}: ${found.sides[each.side].title}` : ""}
                  {found.sides[each.side].modules.length > 1 || found.sides.length === 1
                    ? ` ${found.sides[each.side].labels[each.module]}`
                    : ""}
                </option>
              ))}
            </select>
          )}
          <span class="space" />
          <Search module={module} onFound={setHits} onSelect={choose} />
          <button
            class="quiet"
            onClick={toggle}
            aria-label={`Use ${theme === "dark" ? "light" : "dark"} colours`}
            title={`Use ${theme === "dark" ? "light" : "dark"} colours`}
          >
            {theme === "dark" ? "☀" : "☾"}
          </button>
        </div>
        <Figures />
        <Tabs tabs={tabs.map((each) => each.name)} current={tab.name} onShow={show} />
      </header>
      <main
        role="tabpanel"
        id="panel"
        aria-labelledby={`tab-${tab.name}`}
        class={tab.details ? "with-details" : ""}
        key={`${tab.name} ${graph}`}
      >
        <tab.view />
        {tab.details && <Details />}
      </main>
    </SharedContext.Provider>
  );

  function Figures() {
    const candidate = module.choice.candidates.find((each) => each.chosen);
    const critical = module.tasks.filter((each) => each.critical).length;
    const measured = candidate?.median ?? measuredRun(module);
    const run = measured ?? module.makespan;
    const predicted = measured === null ? "" : `, predicted ${time(module.makespan)}`;
    const figures: [string, string, string][] = [
      [measured === null ? "predicted run" : "measured run", time(run), `mode ${module.mode}${predicted}`],
      ["predicted bound", time(module.bound), `${((100 * module.bound) / module.makespan).toFixed(0)} % of the prediction`],
      ["tasks", count(module.tasks.length), `${count(critical)} on the critical path`],
      ["kernels", count(module.kernels.length), ranHere(module) ? "measured in the run" : `${module.kernels.filter((k) => k.measured).length} measured`],
      ["streams", count(module.streams), `${count(module.tasks.reduce((sum, t) => sum + t.after.length, 0))} waits`],
      ["arena", bytes(of("arena")), `${bytes(module.memory.apart)} without reuse`],
      ["weights", bytes(of("weight")), `${bytes(of("input") + of("output"))} in and out`],
    ];
    return (
      <dl class="figures" aria-label="Key figures">
        {figures.map(([label, value, more]) => (
          <div>
            <dt>{label}</dt>
            <dd>{value}</dd>
            <dd class="muted">{more}</dd>
          </div>
        ))}
      </dl>
    );
  }

  function of(kind: string) {
    return module.memory.allocations.filter((a) => a.kind === kind).reduce((sum, a) => sum + a.nbytes, 0);
  }
}

function Tabs({ tabs, current, onShow }: { tabs: string[]; current: string; onShow: (tab: string) => void }) {
  const list = useRef<HTMLDivElement>(null);
  const key = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1 };
    const index = tabs.indexOf(current);
    let next = index + (steps[event.key] ?? 0);
    if (event.key === "Home") next = 0;
    if (event.key === "End") next = tabs.length - 1;
    if (next === index) return;
    event.preventDefault();
    const name = tabs[(next + tabs.length) % tabs.length];
    onShow(name);
    list.current?.querySelector<HTMLElement>(`#tab-${name}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list} onKeyDown={key}>
      {tabs.map((name) => (
        <button
          role="tab"
          id={`tab-${name}`}
          aria-selected={name === current}
          aria-controls="panel"
          tabIndex={name === current ? 0 : -1}
          onClick={() => onShow(name)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}
