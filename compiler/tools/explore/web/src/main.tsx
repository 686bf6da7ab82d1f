/** Reads the document in the page and shows it. */
import { render } from "preact";
import { App } from "./app";
import { readDocument } from "./document";

const root = document.getElementById("app")!;
readDocument().then(
  (found) => render(<App document={found} />, root),
  (error: Error) => {
    root.textContent = `The page cannot be shown: ${error.message}`;
    root.className = "failure";
  },
);
