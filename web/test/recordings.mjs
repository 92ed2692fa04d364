// Pages of the golden recordings: what the tests open. Made by the programs in target/release (`make build`), or in
// WHYLAT_PROGRAMS.
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const programs = process.env.WHYLAT_PROGRAMS ?? join(root, "target/release");

/** A directory that is removed when the tests end. */
export const scratch = mkdtempSync(join(tmpdir(), "whylat-viewer-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

function run(program, args) {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"], maxBuffer: 1 << 28 });
  } catch (error) {
    // 3: done, but the recording is not complete, as those that show losses.
    if (error.status !== 3) throw new Error(`${program} ${args.join(" ")}: ${error.stderr ?? error.message}`);
    return error.stdout;
  }
}

export const whylat = (...args) => run(join(programs, "whylat"), args);

/** A folder of text under tests/, which other folders may inherit. */
export const golden = (folder) => join(root, "tests", folder);

/** Makes a recording of a folder of text under tests/. */
export function recording(folder) {
  const output = join(scratch, `${folder.replaceAll("/", "-")}.whylat`);
  if (!existsSync(output)) madeOf(golden(folder), output);
  return output;
}

/** The text of a file of a folder under tests/, or of one that it inherits by name. */
export function textOf(folder, name) {
  const own = join(golden(folder), name);
  if (existsSync(own)) return readFileSync(own, "utf8");
  const lines = readFileSync(join(golden(folder), "inherits.txt"), "utf8").split("\n");
  const line = lines.find((line) => line.endsWith(`/${name}`));
  return readFileSync(join(golden(folder), line), "utf8");
}

/** Makes a recording of a folder of text. */
export function madeOf(folder, output) {
  run(join(programs, "examples/recording"), [folder, output]);
  return output;
}

/** Makes the page of a recording. */
export function page(path) {
  const file = `${path}.html`;
  whylat("report", "--format", "html", "-o", file, path);
  return file;
}

/** Recordings of `make viewer-faults`; none without. */
export function live() {
  const folder = process.env["WHYLAT_RECORDINGS"];
  if (!folder) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith(".whylat"));
  return names.map((name) => join(folder, name));
}

/** Golden cases of every rule of the diagnosis: what is planted, and found. */
export function fired() {
  const rules = readdirSync(join(root, "tests/golden"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return rules
    .map((rule) => `golden/${rule.name}/fires`)
    .filter((folder) => existsSync(golden(folder)));
}
