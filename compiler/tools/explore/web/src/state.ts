/** The state that views share, as context of the page. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { ExploreDocument, Module, Side } from "./document";

export interface Shared {
  document: ExploreDocument;
  side: Side;
  module: Module;
  /** The selected task, or null. */
  task: number | null;
  select: (task: number | null) => void;
  /** The tasks that the search found, the best first; null without a search. */
  found: number[] | null;
  /** Changes with the colours, so that canvases are drawn again. */
  theme: string;
  show: (tab: string) => void;
}

export const SharedContext = createContext<Shared | null>(null);

export function useShared(): Shared {
  const shared = useContext(SharedContext);
  if (!shared) throw new Error("a view is outside the page");
  return shared;
}
