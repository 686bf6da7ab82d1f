/** The search field: kernels, nodes, operators, their attributes and shapes. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Module } from "./document";
import { labels } from "./labels";

const MOST_SHOWN = 10;

/** One lower-case text a task, in which words are searched. */
function texts(module: Module): string[] {
  const names = labels(module).tasks;
  const found = module.tasks.map((task, index) =>
    [`#${index}`, task.kernel, names[index], ...task.nodes, ...task.writes.map((v) => v.shape.join("x"))].join(" "),
  );
  for (const operator of module.operators) {
    if (operator.task === null) continue;
    const attributes = Object.entries(operator.attributes).map(([name, value]) => `${name}=${value}`);
    found[operator.task] += ` ${operator.type} ${operator.name} ${operator.outputs.join(" ")} ${attributes.join(" ")}`;
  }
  return found.map((text) => text.toLowerCase());
}

interface Properties {
  module: Module;
  onFound: (tasks: number[] | null) => void;
  onSelect: (task: number) => void;
}

export function Search({ module, onFound, onSelect }: Properties) {
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const searched = useMemo(() => texts(module), [module]);
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = useMemo(() => {
    if (!words.length) return null;
    return searched.flatMap((text, index) => (words.every((word) => text.includes(word)) ? [index] : []));
  }, [query, searched]);
  useEffect(() => onFound(found), [found]);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    window.addEventListener("keydown", focus);
    return () => window.removeEventListener("keydown", focus);
  }, []);

  const go = (index: number) => {
    if (!found?.length) return;
    const next = (index + found.length) % found.length;
    setAt(next);
    onSelect(found[next]);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      setQuery("");
      setOpen(false);
      field.current?.blur();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      go(open ? (event.key === "Enter" && at < 0 ? 0 : at + 1) : 0);
    } else if (event.key === "ArrowUp") {
      event.preventDefault();
      go(at - 1);
    }
  };
  const first = Math.max(0, Math.min(at - 4, (found?.length ?? 0) - MOST_SHOWN));
  const shown = found?.slice(first, first + MOST_SHOWN) ?? [];
  const visible = open && found !== null;
  return (
    <div class="search" role="search">
      <input
        ref={field}
        type="search"
        role="combobox"
        aria-label="Search kernels, nodes, operators, attributes and shapes"
        aria-expanded={visible}
        aria-controls="found"
        aria-activedescendant={visible && at >= 0 && found.length ? `found-${found[at]}` : undefined}
        placeholder="Search kernels and nodes"
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(-1);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setTimeout(() => setOpen(false), 150)}
        onKeyDown={key}
      />
      {query ? <span class="hits" role="status">{found?.length ?? 0} found</span> : <kbd>/</kbd>}
      {visible && found.length > 0 && (
        <ul id="found" role="listbox" aria-label="Found tasks">
          {shown.map((task) => (
            <li
              id={`found-${task}`}
              role="option"
              aria-selected={found[at] === task}
              onMouseDown={(event) => {
                event.preventDefault();
                go(found.indexOf(task));
              }}
            >
              <span class="number">{task}</span>
              <span class="clip">{labels(module).tasks[task]}</span>
              <span class="clip muted">{module.tasks[task].nodes.join(", ")}</span>
            </li>
          ))}
          {found.length > shown.length && (
            <li class="muted more">{found.length} in all; Enter or arrows go through them</li>
          )}
        </ul>
      )}
    </div>
  );
}
