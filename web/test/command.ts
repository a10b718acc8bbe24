// The command, whose bytes the others must write.

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The root of the repository; the tests run in `web`. */
export const ROOT = resolve("..");

/** The command. */
export const COMMAND = resolve(ROOT, process.env.ONNX2NCNN ?? "target/debug/onnx2ncnn");

/** A new folder. */
export const room = (): string => mkdtempSync(join(tmpdir(), "onnx2ncnn-"));

export interface Files {
  param: Buffer;
  bin: Buffer;
}

/** Converts a model by the command; undefined if it is refused. */
export function byCommand(model: string, words: string[] = []): Files | undefined {
  const folder = room();
  const [param, bin] = [join(folder, "net.param"), join(folder, "net.bin")];
  try {
    execFileSync(COMMAND, [model, param, bin, ...words], { stdio: "ignore", cwd: ROOT });
  } catch (error) {
    if ((error as { status?: number }).status === 1) return undefined;
    throw error;
  }
  return { param: readFileSync(param), bin: readFileSync(bin) };
}

/** The verdict of the command on what it converts, without the largest error, which depends on the order of sums. */
export function verdictByCommand(model: string): string {
  const folder = room();
  const files = [model, join(folder, "net.param"), join(folder, "net.bin")];
  execFileSync(COMMAND, files, { stdio: "ignore", cwd: ROOT });
  return withoutError(execFileSync(COMMAND, ["verify", ...files], { encoding: "utf8", cwd: ROOT }).trim().split("\n").at(-1)!.replace(/^verified: /, ""));
}

export const withoutError = (verdict: string): string => verdict.replace(/error [\d.e-]+/, "error");

/** The page that the command writes about a model, of a net or of a refusal. */
export function reportPage(model: string): string {
  const folder = room(), page = join(folder, "report.html");
  try {
    execFileSync(COMMAND, [model, join(folder, "net.param"), "--html", page], { stdio: "ignore" });
  } catch (error) {
    if ((error as { status?: number }).status !== 1) throw error;
  }
  return page;
}

/** The fixtures below a folder: models with their names. */
export function models(folder: string): { name: string; path: string }[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name === "model.onnx")
    .map((entry) => ({ name: entry.parentPath.slice(folder.length + 1), path: join(entry.parentPath, entry.name) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Folders of further models, which `MODELS` names. */
export const furtherModels = () => (process.env.MODELS ?? "").split(":").filter((folder) => folder && existsSync(folder)).flatMap(models);
