/** The selected task: its kernel, its times, what it reads and writes, its operators. */
import type { Operator, View } from "./document";
import { bytes, flops, micros, shape, time } from "./format";
import { labels } from "./labels";
import { streamColour } from "./palette";
import { useShared } from "./state";

export function Details() {
  const { module, task, select, side } = useShared();
  if (task === null) {
    return (
      <aside class="details" aria-label="Selected task">
        <h2>Nothing selected</h2>
        <p class="muted">Click a task, or search with <kbd>/</kbd>. In a drawing the arrow keys go from task to task.</p>
        {side.note && <p class="muted">{side.note}</p>}
      </aside>
    );
  }
  const found = module.tasks[task];
  const names = labels(module).tasks;
  const kernel = module.kernels.find((each) => each.name === found.kernel);
  const operators = module.operators.filter((each) => each.task === task);
  const next = module.layout.edges.filter(([from]) => from === task).map(([, to]) => to);
  const before = module.layout.edges.filter(([, to]) => to === task).map(([from]) => from);
  return (
    <aside class="details" aria-label="Selected task">
      <h2>
        <span class="swatch" style={{ background: streamColour(found.stream) }} /> {names[task]}
      </h2>
      <p class="muted code">{found.kernel}</p>
      <table class="facts">
        <tbody>
          <Row name="task" value={`${task} of ${module.tasks.length}`} />
          <Row name="stream" value={String(found.stream)} />
          <Row name="predicted" value={`${micros(found.start)} to ${micros(found.end)} µs`} />
          {found.measured && (
            <Row name="measured" value={`${micros(found.measured[0])} to ${micros(found.measured[1])} µs`} />
          )}
          {found.thread !== null && <Row name="thread" value={String(found.thread)} />}
          <Row name="alone" value={`${time(found.alone)}${kernel?.measured ? ", measured" : ", estimated"}`} />
          {kernel && <Row name="work" value={`${flops(kernel.flops)}, ${bytes(kernel.traffic)}`} />}
          <Row name="critical path" value={found.critical ? "yes" : "no"} />
          {kernel && kernel.template && <Row name="template" value={kernel.template} />}
          {kernel && <Row name="configuration" value={kernel.provenance} />}
        </tbody>
      </table>
      <Links name="follows" tasks={before} />
      <Links name="followed by" tasks={next} />
      {found.after.length > 0 && <Links name="waits for" tasks={found.after} />}
      <Tensors name="Reads" views={found.reads} />
      <Tensors name="Writes" views={found.writes} />
      {operators.length > 0 ? (
        <>
          <h3>Operators</h3>
          {operators.map((each) => (
            <OperatorFacts operator={each} />
          ))}
        </>
      ) : (
        found.nodes.length > 0 && (
          <>
            <h3>ONNX nodes</h3>
            <ul class="plain">
              {found.nodes.map((name) => (
                <li class="code">{name}</li>
              ))}
            </ul>
          </>
        )
      )}
    </aside>
  );

  function Links({ name, tasks }: { name: string; tasks: number[] }) {
    if (!tasks.length) return null;
    return (
      <p class="links">
        <span class="muted">{name}</span>{" "}
        {tasks.slice(0, 12).map((each) => (
          <button class="link" onClick={() => select(each)} title={names[each]}>
            {each}
          </button>
        ))}
        {tasks.length > 12 && <span class="muted">and {tasks.length - 12} more</span>}
      </p>
    );
  }
}

export function Row({ name, value }: { name: string; value: string }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{value}</td>
    </tr>
  );
}

function Tensors({ name, views }: { name: string; views: View[] }) {
  return (
    <>
      <h3>{name}</h3>
      <table class="tensors">
        <tbody>
          {views.map((view) => (
            <tr>
              <td>
                <span class={`kind ${view.kind}`}>{view.kind}</span>
              </td>
              <td class="code">
                {view.dtype} {shape(view.shape)}
                {view.kind !== "arena" && <div class="muted clip">{view.name}</div>}
              </td>
              <td class="number">{bytes(view.nbytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function OperatorFacts({ operator }: { operator: Operator }) {
  const attributes = Object.entries(operator.attributes);
  return (
    <details open={attributes.length < 8}>
      <summary>
        <b>{operator.type}</b> <span class="muted">{operator.name}</span>
      </summary>
      <div class="code types">
        {operator.inputs.map(short_type).join(", ")} → {operator.outputs.map(short_type).join(", ")}
      </div>
      {attributes.length > 0 && (
        <table class="facts code">
          <tbody>
            {attributes.map(([name, value]) => (
              <Row name={name} value={value.replaceAll(" : i64", "")} />
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

/** `tensor<1x3xf32, #dataflow.channels<4>>` as `1x3xf32, channels<4>`. */
function short_type(type: string) {
  return type.replace(/^tensor<(.*)>$/, "$1").replace("#dataflow.", "");
}
