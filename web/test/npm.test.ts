// The package, installed from its tarball into an empty project.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";
import type { OptionInfo } from "onnx2ncnn";
import { byCommand, furtherModels, models, room, ROOT, verdictByCommand, withoutError } from "./command.js";

const project = room();
const dist = join(ROOT, "target/dist");
const FIXTURE = join(ROOT, "fixtures/network/convolutional/model.onnx");
const HALVES = join(ROOT, "fixtures/remedy/both_halves/model.onnx");
const REFUSED = join(ROOT, "fixtures/refused/pooling_that_skips_elements_of_a_free_axis/model.onnx");

let library: typeof import("onnx2ncnn");

before(async () => {
  const tarball = readdirSync(dist).find((name) => /^onnx2ncnn-.*\.tgz$/.test(name));
  assert.ok(tarball, "cargo xtask npm makes the tarball");
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }));
  execFileSync("npm", ["install", "--no-audit", "--no-fund", join(dist, tarball)], { cwd: project, stdio: "ignore" });
  library = await import(pathToFileURL(join(project, "node_modules/onnx2ncnn/dist/node.js")).href);
});

const npx = (...words: string[]) => spawnSync("npx", ["--no-install", "onnx2ncnn", ...words], { cwd: project, encoding: "utf8" });

test("models in memory have the bytes of the command", async () => {
  for (const options of [{}, { fp16: true }]) {
    const net = await library.convert(readFileSync(FIXTURE), options);
    const expected = byCommand(FIXTURE, options.fp16 ? ["--fp16"] : []);
    assert.equal(net.param, expected?.param.toString());
    assert.ok(expected?.bin.equals(net.bin));
    assert.equal(net.report.status, "converted");
  }
});

/** The type of an option's value. */
function typeOf({ kind, list, values }: OptionInfo): string {
  const types = {
    flag: "boolean", name: "string", number: "number", release: "number", weights: values.map((name) => `"${name}"`).join(" | "),
    shape: "Record<string, Size[]>", array: "Record<string, Numbers>", pair: "Record<string, string>",
  };
  return types[kind] + (list && !types[kind].startsWith("Record") ? "[]" : "");
}

test("each option has its type", () => {
  const file = join(ROOT, "web/npm/src/options.ts");
  const [, before, written, after] = /^(.*interface Options \{\n)(.*?)(\}\n.*)$/s.exec(readFileSync(file, "utf8"))!;
  // A new option has the text of the command at first.
  const about = (name: string, help: string) => new RegExp(`^  /\\*\\* (.*) \\*/\\n  ${name}\\?:`, "m").exec(written!)?.[1] ?? `${help}.`;
  const fields = library.options().map((option) => `  /** ${about(option.name, option.help)} */\n  ${option.name}?: ${typeOf(option)};\n`);
  if (process.env["BLESS"]) writeFileSync(file, before + fields.join("") + after);
  else assert.equal(written, fields.join(""), "BLESS=1 web/test.sh writes the types");
});

test("a net has programs", async () => {
  const opened = await library.open(readFileSync(FIXTURE));
  const net = opened.convert();
  assert.match(net.program("run.py", "a.param", "a.bin")["run.py"]!, /PARAM = FOLDER \/ "a\.param"/);
  assert.deepEqual(Object.keys(net.program("run.cpp")), ["CMakeLists.txt", "run.cpp"]);
  assert.ok("NcnnNet.kt" in net.program("Run.kt"));
  assert.throws(() => net.program("run.txt"), /\.py, \.cpp or \.kt/);
  net.free();
  opened.free();
});

test("a net for ultralytics has its metadata, and others have none", async () => {
  const metadata = async (name: string) => {
    const opened = await library.open(readFileSync(join(ROOT, "fixtures/network", name, "model.onnx")));
    const net = opened.convert({ numbered: true });
    const found = net.metadata;
    net.free();
    opened.free();
    return found;
  };
  assert.match((await metadata("digits"))!, /^task: "classify"\nnames:\n  0: "zero"\n/);
  assert.equal(await metadata("spectrum_of_a_sound"), undefined);
});

test("every fixture is converted or refused as recorded", async () => {
  let converted = 0;
  for (const { name, path } of models(join(ROOT, "fixtures"))) {
    const folder = path.slice(0, -"model.onnx".length);
    const recorded = readdirSync(folder).includes("expected.param") ? readFileSync(join(folder, "expected.param"), "utf8") : undefined;
    const opened = await library.openFile(path);
    try {
      const net = opened.convert();
      assert.equal(net.param, recorded, name);
      converted++;
    } catch (error) {
      if (!(error instanceof library.Refused)) throw error;
      assert.equal(recorded, undefined, `${name}: ${error.message}`);
    } finally {
      opened.free();
    }
  }
  assert.ok(converted > 500, `${converted}`);
});

test("external data beside a model are read, and no others", async () => {
  const path = join(ROOT, "fixtures/weights/external_file_each/model.onnx");
  const opened = await library.openFile(path);
  assert.deepEqual(opened.missing, []);
  assert.ok(byCommand(path)?.bin.equals(opened.convert().bin));
  const alone = await library.open(readFileSync(path));
  assert.deepEqual(alone.missing, ["b", "w"]);
  assert.throws(() => alone.convert(), library.Refused);
});

test("a refusal has its reasons and what can be converted", async () => {
  const refused = await library.convert(readFileSync(REFUSED)).then(() => assert.fail(), (error: unknown) => error);
  assert.ok(refused instanceof library.Refused);
  assert.equal(refused.report.status, "refused");
  assert.ok(refused.diagnostics[0]?.reason);
  assert.deepEqual(refused.report.remedies[0]?.options, { input_shapes: { x: [1, 4, 64] } });
  await library.convert(readFileSync(REFUSED), { input_shapes: { x: [1, 4, 64] } });
});

test("a model is converted as a chain", async () => {
  const opened = await library.open(readFileSync(HALVES));
  const chain = opened.convertChain([["n"], ["frames:int64[S]"]]);
  const [first, rest, last] = chain.steps;
  assert.deepEqual([first?.outputs, rest?.outputs, last?.outputs], [["n"], ["frames"], ["wave"]]);
  assert.ok(first?.net?.param.startsWith("7767517") && last?.net?.bin.length);
  assert.ok(rest?.onnx?.length && rest.reasons[0] && !rest.net);
  assert.deepEqual(JSON.parse(chain.list()).steps.map((step: { param?: string; onnx?: string }) => step.param ?? step.onnx),
    ["model.ncnn.1.param", "model.ncnn.2.onnx", "model.ncnn.3.param"]);
  assert.throws(() => opened.convertChain([["nothing"]]), /no value "nothing"/);
  chain.free();
});

test("unknown options and values are errors", async () => {
  const bytes = readFileSync(FIXTURE);
  for (const options of [{ fp17: true }, { fp16: 1 }, { weights: "int5" }, { int8: true, dequantize: true }, { set: { x: "a b" } }, { input_shapes: { x: [-1] } }]) {
    await assert.rejects(library.convert(bytes, options as never), (error: Error) => error.name === "Error" && !/panic/.test(error.message), JSON.stringify(options));
  }
  await assert.rejects(library.convert(new TextEncoder().encode("This is a text and no model.")), library.Refused);
});

test("models are inspected and simplified", async () => {
  const report = await library.inspect(readFileSync(FIXTURE));
  assert.equal(report.status, "convertible");
  assert.ok(report.model!.nodes > 3);
  const simplified = await library.simplify(readFileSync(FIXTURE));
  assert.equal((await library.convert(simplified)).report.status, "converted");
});

test("the options of the types are those of the library", () => {
  const declared = readFileSync(join(project, "node_modules/onnx2ncnn/dist/options.d.ts"), "utf8");
  const fields = declared.slice(declared.indexOf("interface Options"), declared.indexOf("interface OptionInfo"));
  const names = [...fields.matchAll(/^ {4}(\w+)\?:/gm)].map(([, name]) => name);
  assert.deepEqual(names.toSorted(), library.options().map(({ name }) => name as string).toSorted());
});

test("the command converts files", () => {
  const done = npx(FIXTURE, "net.param", "net.bin", "--report", "r.json", "--html", "r.html");
  assert.equal(done.status, 0, done.stderr);
  const expected = byCommand(FIXTURE);
  assert.ok(expected?.param.equals(readFileSync(join(project, "net.param"))));
  assert.ok(expected?.bin.equals(readFileSync(join(project, "net.bin"))));
  assert.equal(JSON.parse(readFileSync(join(project, "r.json"), "utf8")).status, "converted");
  assert.match(done.stderr, /input {3}"x" {2}float {2}\[1, 3, 16, 16\] {2}-> {2}w=16 h=16 c=3/);
});

/** The weights of a net, of which the last is wrong. */
function wrong(bin: Uint8Array): Uint8Array {
  const changed = Uint8Array.from(bin);
  new DataView(changed.buffer).setFloat32(changed.length - 4, 1000, true);
  return changed;
}

test("a net is verified", async () => {
  const bytes = readFileSync(FIXTURE), { param, bin } = await library.convert(bytes);
  const proof = await library.verify(bytes, { param, bin });
  assert.equal(withoutError(proof.verdict), verdictByCommand(FIXTURE));
  assert.ok(proof.same && proof.windows.length > 2);
  assert.ok(proof.windows.every(({ state, layers, nodes }) => state !== "differs" && layers.length && nodes.length));
  assert.equal(proof.windows.at(-1)!.value, "y");
  // Without files, it is the net that the options convert.
  assert.match((await library.verify(bytes, undefined, { input_shapes: { x: [1, 3, "H", "W"] } })).verdict, / at \d sizes, /);
  const other = await library.verify(bytes, { param, bin: wrong(bin) });
  assert.equal(other.same, false);
  assert.match(other.verdict, /^1 of \d+ windows differ$/);
  assert.ok(other.windows.find(({ state }) => state === "differs")?.reason);
  await assert.rejects(library.verify(bytes, { param, bin: bin.subarray(4) }), Error);
  await assert.rejects(library.verify(bytes, { param, bin }, { fp17: true } as never), /fp17: unknown option/);
  await assert.rejects(library.verify(new Uint8Array(3)), Error);
  // The module is usable after errors.
  assert.ok((await library.verify(bytes, { param, bin })).same);
});

test("the module that converts has no engine", () => {
  const bytes = (name: string) => readFileSync(join(project, "node_modules/onnx2ncnn/wasm", name));
  const [converts, verifies] = [bytes("onnx2ncnn_bg.wasm"), bytes("onnx2ncnn_verify_bg.wasm")];
  assert.ok(verifies.length > converts.length * 1.2, `${converts.length} and ${verifies.length} bytes`);
});

test("the command verifies files", () => {
  assert.equal(npx(FIXTURE, "checked.param").status, 0);
  const done = npx("verify", FIXTURE, "checked.param");
  assert.equal(done.status, 0, done.stderr);
  assert.equal(withoutError(done.stdout.trim()), `verified: ${verdictByCommand(FIXTURE)}`);
  writeFileSync(join(project, "checked.bin"), wrong(readFileSync(join(project, "checked.bin"))));
  const other = npx("verify", FIXTURE, "checked.param", "checked.bin");
  assert.equal(other.status, 4, other.stderr);
  assert.match(other.stderr, /^DIFFERS ".+": .+\n {2}layers .+; nodes .+/m);
  assert.match(other.stdout, /^mismatch: 1 of \d+ windows differ$/m);
  assert.equal(npx("verify", FIXTURE, "none.param").status, 2);
});

test("the command leaves no file of a refused model", () => {
  const done = npx(REFUSED, "no.param", "no.bin");
  assert.equal(done.status, 1, done.stderr);
  assert.match(done.stderr, /--input-shape x:1,4,64$/m);
  assert.ok(!readdirSync(project).some((name) => name.startsWith("no.")));
  assert.equal(npx(REFUSED, "yes.param", "--input-shape", "x:1,4,64").status, 0);
  assert.equal(npx("none.onnx").status, 2);
  assert.equal(npx(FIXTURE, "--no-such-option").status, 2);
  // A folder that does not exist is found before anything is written.
  assert.equal(npx(FIXTURE, "none/net.param", "net.bin").status, 2);
});

test("further models have the bytes of the command", async () => {
  for (const { name, path } of furtherModels()) {
    const expected = byCommand(path);
    const opened = await library.openFile(path);
    try {
      const net = opened.convert();
      assert.ok(expected, `${name} is refused by the command`);
      assert.equal(net.param, expected.param.toString(), name);
      assert.ok(expected.bin.equals(net.bin), name);
      net.free();
    } catch (error) {
      if (!(error instanceof library.Refused)) throw error;
      assert.equal(expected, undefined, name);
    } finally {
      opened.free();
    }
  }
});
