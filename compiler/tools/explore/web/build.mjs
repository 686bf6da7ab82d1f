// Bundles src/ into ../page.html (or the path given), one file with scripts, styles and licences.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";

const options = { bundle: true, minify: true, write: false, legalComments: "none", charset: "utf8" };
const script = await build({
  ...options,
  entryPoints: ["src/main.tsx"],
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  metafile: true,
});
const style = await build({ ...options, entryPoints: ["src/style.css"] });

// Every package whose code is in the bundle, with its licence.
const packages = Object.keys(script.metafile.inputs)
  .map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1])
  .filter((name) => name !== undefined);
const licences = [...new Set(packages)].sort().map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`;
});

const code = script.outputFiles[0].text.replaceAll("</script", "<\\/script");
const page = readFileSync("src/page.html", "utf8")
  .replace("/*style*/", () => style.outputFiles[0].text.trim())
  .replace("/*licences*/", () => licences.join("\n\n----\n\n").replaceAll("--", "- -"))
  .replace("/*script*/", () => code.trim());
writeFileSync(process.argv[2] ?? "../page.html", page);
