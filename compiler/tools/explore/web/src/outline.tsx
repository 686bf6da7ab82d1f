/** A program: its segments and its nodes on the host, in the order in which a run executes them. */
import { count } from "./format";
import { useShared } from "./state";

const MOST_NODES = 12;

export function OutlineView() {
  const { side } = useShared();
  return (
    <section class="outline" aria-label="Outline">
      <p class="lead">
        Steps of a run: {side.steps.length}, on the host: {side.steps.filter((s) => s.kind === "host").length}. Graphs
        compiled so far: {side.modules.length}.
        {side.modules.length > 1 && " The list at the top of the page selects the one that the other views show."}
      </p>
      <ol class="steps">
        {side.steps.map((step) => (
          <li class={step.kind}>
            <h2>
              <span class="chip">{step.kind === "host" ? "on the host" : "segment"}</span> {step.label}
            </h2>
            {step.reason && <p>{step.reason}</p>}
            <p class="code muted">
              {step.nodes.slice(0, MOST_NODES).join(", ")}
              {step.nodes.length > MOST_NODES && ` and ${count(step.nodes.length - MOST_NODES)} more`}
            </p>
            <p class="muted">
              reads {step.reads.join(", ") || "nothing"}; writes {step.writes.join(", ") || "nothing"}
            </p>
          </li>
        ))}
      </ol>
    </section>
  );
}
