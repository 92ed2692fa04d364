// Builds the viewer: TypeScript and style sheets → one HTML file, which the `view` crate embeds. Scripts and styles
// are allowed by their digests alone, so that nothing that a recording holds can become one. With --check nothing is
// written: it fails if the file is not what the sources make.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const TARGET = here("../crates/view/assets/viewer.html");

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["chrome110", "firefox115", "safari16.4"],
    charset: "utf8",
    legalComments: "none",
    loader: { ".css": "css" },
  });
  return result.outputFiles[0].text.trim();
}

const digest = (text) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

const [script, style, template] = await Promise.all([
  bundle("src/main.ts"),
  bundle("src/theme/index.css"),
  readFile(here("src/template.html"), "utf8"),
]);
const policy = [
  "default-src 'none'",
  `script-src ${digest(script)}`,
  `style-src ${digest(style)}`,
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const parts = { policy, style, script };
const page = template.replace(/@(policy|style|script)@/g, (_, name) => parts[name]);
if (!process.argv.includes("--check")) {
  await writeFile(TARGET, page);
  console.log(`${TARGET}: ${page.length} bytes`);
} else if ((await readFile(TARGET, "utf8")) !== page) {
  console.error(`error: ${TARGET} is not what web/src makes\nhint: make viewer, and commit the file`);
  process.exit(1);
}
