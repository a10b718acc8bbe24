// The page in Chromium.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, BrowserContext, Download, Page } from "playwright-core";
import { checkAccess, launch, picture } from "./browser.js";
import { byCommand, COMMAND, furtherModels, models, room, ROOT, verdictByCommand, withoutError } from "./command.js";
import { serve, type Served } from "./serve.js";

const FIXTURES = join(ROOT, "fixtures");
const REFUSED = join(FIXTURES, "refused/pooling_that_skips_elements_of_a_free_axis/model.onnx");

let served: Served;
let browser: Browser;

before(async () => {
  served = await serve(join(ROOT, "target/dist/page"));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  served?.server.close();
});

interface Opened {
  page: Page;
  context: BrowserContext;
  /** Checks that nothing was logged, nothing violated the policy, and no request left. */
  end(): Promise<void>;
}

async function open(address = "", settings: Parameters<Browser["newContext"]>[0] = {}): Promise<Opened> {
  const context = await browser.newContext({ acceptDownloads: true, locale: "en-US", ...settings });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(served.address) && !/^(blob|data|about):/.test(url)) faults.push(`a request to ${url}`);
  });
  await page.goto(served.address + address);
  await page.waitForSelector("html[data-ready]");
  const end = async () => {
    assert.deepEqual(faults, []);
    await context.close();
  };
  return { page, context, end };
}

async function give(page: Page, files: string | string[] | { name: string; mimeType: string; buffer: Buffer }[]): Promise<void> {
  await page.setInputFiles("#files", files as string[]);
  await page.waitForSelector("#result:not([hidden]) .badge", { timeout: 120_000 });
  await page.waitForSelector("#progress", { state: "hidden" });
}

const status = (page: Page) => page.textContent("#result .badge");

async function download(page: Page, name: RegExp): Promise<Buffer> {
  // A click that fails is reported before the download that it should begin.
  const download = page.waitForEvent("download", { timeout: 60_000 });
  const [found] = await Promise.all([download, page.locator(".row .button, .row button", { hasText: name }).first().click({ timeout: 30_000 })]);
  return readFileSync(await (found as Download).path());
}

/** The content of a file that the page offers; the policy of the page permits no request, also for what it has made. */
async function content(page: Page, name: RegExp): Promise<Buffer> {
  const address = await page.locator(".row a.button", { hasText: name }).getAttribute("href");
  const encoded = await page.evaluate(async (address) => {
    const reader = new FileReader();
    const read = new Promise((done) => reader.addEventListener("load", done));
    reader.readAsDataURL(await (await fetch(address)).blob());
    await read;
    return reader.result as string;
  }, address!);
  return Buffer.from(encoded.slice(encoded.indexOf(",") + 1), "base64");
}

test("a model is converted to the bytes of the command", async () => {
  const { page, end } = await open();
  await checkAccess(page);
  await picture(page, "start");
  const path = join(FIXTURES, "network/convolutional/model.onnx");
  const start = performance.now();
  await give(page, path);
  const seconds = (performance.now() - start) / 1000;
  assert.equal(await status(page), "Converted");
  const expected = byCommand(path)!;
  assert.ok(expected.param.equals(await download(page, /^model\.ncnn\.param/)));
  assert.ok(expected.bin.equals(await download(page, /^model\.ncnn\.bin/)));
  assert.match((await page.textContent("#result table"))!, /w=16 h=16 c=3/);
  const archive = await download(page, /all as/);
  assert.equal(archive.readUInt32LE(0), 0x04034b50);
  assert.ok(archive.includes(expected.bin));
  assert.match((await download(page, /program in Python/)).toString(), /BIN = FOLDER \/ "model\.ncnn\.bin"/);
  assert.ok((await download(page, /program in Kotlin/)).includes("class NcnnNet"));
  assert.equal(JSON.parse((await download(page, /report \(\.json/)).toString()).status, "converted");
  await checkAccess(page);
  await page.evaluate("scrollTo(0, 0)");
  await picture(page, "converted");
  assert.ok(seconds < 30, `${seconds} s`);
  await end();
});

test("what to do next is filled in for the model", async () => {
  const { page, end } = await open("", { permissions: ["clipboard-read", "clipboard-write"] });
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  const next = page.locator(".next details");
  assert.equal(await next.count(), 4);
  const lines = (at: number) => next.nth(at).locator("pre").textContent();
  const python = (await lines(0))!;
  for (const line of ['net.load_param("model.ncnn.param")', 'net.load_model("model.ncnn.bin")', "x0 = np.zeros((3, 16, 16), np.float32)", 'extractor.extract("y")']) assert.ok(python.includes(line), line);
  assert.match((await lines(1))!, /ncnn::Mat x0\(16, 16, 3\);/);
  assert.match((await lines(2))!, /^onnx2ncnn verify model\.onnx model\.ncnn\.param model\.ncnn\.bin --runtime$/m);
  await next.nth(2).getByRole("button", { name: "Copy" }).click();
  assert.equal(await page.evaluate("navigator.clipboard.readText()"), await lines(2));
  // The options that are set are those of the lines.
  await page.evaluate(() => { location.hash = "fp16=true&input_shapes={\"x\":[1,3,32,32]}&rename={\"x\":\"in(put\"}"; });
  await page.getByRole("button", { name: "Convert", exact: true }).click();
  await page.locator("#result table", { hasText: "w=32" }).waitFor();
  assert.equal(await lines(3), "onnx2ncnn model.onnx --fp16 --input-shape x:1,3,32,32 --rename 'x=in(put'");
  assert.ok((await lines(0))!.includes(`extractor.input("in(put", `));
  // The documents of this version are beside the page.
  const documents = await page.locator("footer a, .next a").evaluateAll((links) => links.map((link) => (link as HTMLAnchorElement).pathname));
  assert.ok(documents.length > 4);
  for (const path of documents) assert.ok(existsSync(join(ROOT, "target/dist/page", path)), path);
  assert.match((await page.textContent("#version"))!, /^onnx2ncnn \d+\.\d+\.\d+$/);
  for (const details of await next.all()) await details.evaluate((details: HTMLDetailsElement) => { details.open = true; });
  await checkAccess(page);
  await end();
});

test("a net is verified by what is loaded then", async () => {
  const { page, context, end } = await open();
  const loaded: string[] = [];
  context.on("request", (request) => request.url().endsWith(".wasm") && loaded.push(request.url()));
  const path = join(FIXTURES, "network/convolutional/model.onnx");
  await give(page, path);
  assert.deepEqual(loaded, []);
  await page.getByRole("button", { name: "Verify", exact: true }).focus();
  await page.keyboard.press("Enter");
  const verdict = page.locator(".check .message");
  await verdict.waitFor();
  assert.equal(loaded.length, 1);
  assert.equal(withoutError((await verdict.textContent())!), `Verified in your browser: ${verdictByCommand(path)}`);
  assert.equal(await page.evaluate("document.activeElement.className"), "check");
  await checkAccess(page);
  await page.evaluate("scrollTo(0, 0)");
  await picture(page, "verified");
  // It stays when the page is drawn in another language.
  await page.selectOption("#language", "zh");
  assert.match((await verdict.textContent())!, /^已在浏览器中验证： \d+ of \d+ windows, /);
  await page.selectOption("#language", "en");
  // It belongs to this net alone.
  await page.getByRole("button", { name: "Convert", exact: true }).click();
  await page.getByRole("button", { name: "Verify", exact: true }).waitFor();
  assert.equal(await verdict.count(), 0);
  await end();
});

test("a window that differs is named", async () => {
  const { page, end } = await open("", { viewport: { width: 390, height: 844 } });
  await give(page, join(FIXTURES, "network/digits/model.onnx"));
  await page.evaluate(() => {
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (this: Worker, message: { bin?: Blob }) {
      const { bin } = message;
      post.call(this, bin ? { ...message, bin: new Blob([bin.slice(0, bin.size - 4), new Float32Array([1000])]) } : message);
    };
  });
  await page.getByRole("button", { name: "Verify", exact: true }).click();
  await page.locator(".check li").waitFor();
  assert.match((await page.locator(".check p.error").textContent())!, /^Differs from the model: 1 of \d+ windows differ$/);
  assert.match((await page.locator(".check li").first().textContent())!, /^".+": .+layers .+; nodes .+/);
  assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window");
  await checkAccess(page);
  await picture(page, "differs");
  await end();
});

test("a net with caches is verified, and that can be cancelled", async () => {
  const { page, end } = await open("#kv_cache=true");
  await give(page, join(FIXTURES, "decoder/causal_attention/model.onnx"));
  const verify = page.getByRole("button", { name: "Verify", exact: true });
  await page.evaluate("window.slow = setInterval(() => document.querySelector('.check progress ~ button')?.click(), 1)");
  await verify.click();
  await page.locator(".check p", { hasText: "only then" }).waitFor();
  await page.evaluate("clearInterval(window.slow)");
  await verify.click();
  const verdict = page.locator(".check .message");
  await verdict.waitFor();
  assert.match((await verdict.textContent())!, /^Verified in your browser: .*not covered: 0$/);
  await end();
});

test("the folder of ultralytics is that of the command", async () => {
  const { page, end } = await open();
  const path = join(FIXTURES, "network/digits/model.onnx");
  await give(page, path);
  const archive = await download(page, /folder for ultralytics/);
  const folder = join(room(), "digits");
  execFileSync(COMMAND, [path, "--ultralytics", folder], { stdio: "ignore", cwd: ROOT });
  for (const name of ["model.ncnn.param", "model.ncnn.bin", "metadata.yaml"]) {
    assert.ok(archive.includes(`model_ncnn_model/${name}`), name);
    assert.ok(archive.includes(readFileSync(join(`${folder}_ncnn_model`, name))), name);
  }
  // Of a model that says nothing about its use, there is none.
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  assert.equal(await page.getByRole("button", { name: /ultralytics/ }).count(), 0);
  await end();
});

test("nothing is cut at the width of a phone", async () => {
  const { page, end } = await open("", { viewport: { width: 390, height: 844 } });
  await give(page, join(FIXTURES, "network/digits/model.onnx"));
  await page.locator("#options-box > summary").click();
  for (const details of (await page.locator(".next details:not([open])").all()).reverse()) await details.locator("summary").click();
  const wide = await page.evaluate(() => [...document.querySelectorAll(".table, section, body, pre")].filter((element) => element.scrollWidth > element.clientWidth).map((element) => element.className || element.tagName));
  assert.deepEqual(wide, []);
  // The cells have their labels.
  const label = await page.locator("#result td[data-label]").first().evaluate((cell) => getComputedStyle(cell, "::before").content);
  assert.equal(label, '"Kind"');
  await checkAccess(page);
  await picture(page, "phone");
  await end();
});

test("options are explained with their defaults", async () => {
  const { page, end } = await open();
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  const about = await page.locator("#options .about").allTextContents();
  assert.ok(about.length > 15);
  for (const text of about) assert.match(text, /\. Default: [\w.]+\.$|The default is /);
  await end();
});

test("fixtures and further models have the bytes of the command", async () => {
  const { page, end } = await open("", { bypassCSP: true });
  const chosen = ["network", "weights", "quantized"].flatMap((family) => models(join(FIXTURES, family)).slice(0, 6));
  for (const { name, path } of [...chosen, ...furtherModels()]) {
    const folder = path.slice(0, -"/model.onnx".length);
    await give(page, readdirSync(folder).filter((file) => !/^(expected|inputs|outputs|meta)/.test(file)).map((file) => join(folder, file)));
    const expected = byCommand(path);
    assert.equal(await status(page), expected ? "Converted" : "Refused", name);
    if (!expected) continue;
    assert.ok(expected.param.equals(await content(page, /^model\.ncnn\.param/)), name);
    assert.ok(expected.bin.equals(await content(page, /^model\.ncnn\.bin/)), name);
  }
  await end();
});

test("a refusal shows its reason, and its advice is a button", async () => {
  const { page, end } = await open();
  await give(page, REFUSED);
  assert.equal(await status(page), "Refused");
  assert.match((await page.textContent(".message.error"))!, /E\d{4}/);
  await checkAccess(page);
  await page.evaluate("scrollTo(0, 0)");
  await picture(page, "refused");
  await page.getByRole("button", { name: "Convert the whole model with --input-shape x:1,4,64" }).click();
  await page.locator("#result .badge", { hasText: "Converted" }).waitFor();
  const expected = byCommand(REFUSED, ["--input-shape", "x:1,4,64"])!;
  assert.ok(expected.param.equals(await download(page, /^model\.ncnn\.param/)));
  // The address has the option, which another page takes from it.
  const address = new URL(page.url()).hash;
  assert.match(decodeURIComponent(address), /input_shapes=\{"x":\[1,4,64\]\}/);
  await end();
  const other = await open(address);
  await give(other.page, REFUSED);
  assert.equal(await status(other.page), "Converted");
  await other.end();
});

test("options of the form are those of the command", async () => {
  const { page, end } = await open();
  const path = join(FIXTURES, "network/convolutional/model.onnx");
  await give(page, path);
  await page.locator("#options-box > summary").click();
  await page.getByRole("checkbox", { name: /--fp16/ }).check();
  await page.getByLabel("Shape to convert with: x").fill("1,3,32,32");
  await page.getByLabel("Shape to convert with: x").press("Tab");
  await checkAccess(page);
  await picture(page, "options");
  await page.getByRole("button", { name: "Convert", exact: true }).click();
  await page.locator("#result table", { hasText: "w=32" }).waitFor();
  const expected = byCommand(path, ["--fp16", "--input-shape", "x:1,3,32,32"])!;
  assert.ok(expected.bin.equals(await download(page, /^model\.ncnn\.bin/)));
  // What excludes each other is not set together.
  await page.getByRole("checkbox", { name: /--int8/ }).check();
  await page.getByRole("checkbox", { name: /--dequantize/ }).check();
  assert.equal(await page.getByRole("checkbox", { name: /--int8/ }).isChecked(), false);
  await end();
});

test("missing external data are named, and taken when they come", async () => {
  const { page, end } = await open();
  const folder = join(FIXTURES, "weights/external_file_each");
  await page.setInputFiles("#files", join(folder, "model.onnx"));
  await page.waitForSelector("#missing li");
  assert.deepEqual(await page.locator("#missing code").allTextContents(), ["b", "w"]);
  await checkAccess(page);
  await give(page, [join(folder, "b"), join(folder, "w")]);
  assert.equal(await status(page), "Converted");
  await end();
});

test("the graph is that of the report", async () => {
  const { page, end } = await open();
  await page.getByRole("button", { name: "Try an example" }).click();
  await page.waitForSelector("#result:not([hidden]) .badge");
  await page.locator("details.graph > summary").click();
  const frame = page.frameLocator("#graph");
  await frame.locator("html[data-ready]").waitFor();
  assert.match((await frame.locator("#facts").textContent())!, /layers/);
  await page.waitForTimeout(500);
  await picture(page, "graph");
  // The policy of the page holds in the frame.
  await frame.locator("#switch button", { hasText: "Both" }).click();
  await frame.locator("#search").fill("conv");
  await frame.locator("#search").press("Enter");
  await frame.locator("#details .swatch").waitFor();
  const drawing = page.waitForEvent("download");
  await frame.locator("#onnx button", { hasText: "SVG" }).click();
  assert.match((await drawing).suggestedFilename(), /\.onnx\.svg$/);
  await end();
});

test("models are inspected and simplified", async () => {
  const { page, end } = await open();
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  await page.getByRole("button", { name: "Inspect" }).click();
  await page.locator("#result .badge", { hasText: "Can be converted" }).waitFor();
  await page.getByRole("button", { name: "Simplify" }).click();
  await page.locator("#result .badge", { hasText: "Simplified" }).waitFor();
  assert.ok((await download(page, /simplified\.onnx/)).length > 100);
  await end();
});

test("what is no model is refused, and the page goes on", async () => {
  const { page, end } = await open();
  await give(page, [{ name: "text.onnx", mimeType: "text/plain", buffer: Buffer.from("This is a text and no model at all.\n") }]);
  assert.equal(await status(page), "Refused");
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  assert.equal(await status(page), "Converted");
  await end();
});

test("a conversion can be cancelled", async () => {
  const { page, end } = await open();
  // A chain of sines that takes a while.
  await page.evaluate("window.slow = setInterval(() => document.getElementById('cancel').click(), 1)");
  await page.setInputFiles("#files", join(FIXTURES, "network/convolutional/model.onnx"));
  await page.locator("#status", { hasText: "Cancelled." }).waitFor();
  await page.evaluate("clearInterval(window.slow)");
  await give(page, join(FIXTURES, "network/convolutional/model.onnx"));
  assert.equal(await status(page), "Converted");
  await end();
});

test("the keyboard reaches everything", async () => {
  const { page, end } = await open();
  const reached: string[] = [];
  for (let i = 0; i < 6; i++) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate("document.activeElement.id || document.activeElement.className") as string);
  }
  assert.deepEqual(reached.slice(0, 5), ["skip", "language", "choose", "choose-folder", "example"]);
  await page.locator("#example").press("Enter");
  await page.waitForSelector("#result:not([hidden]) .badge");
  assert.equal(await page.evaluate("document.activeElement.id"), "result");
  await end();
});

test("the page is Chinese where the browser is, and dark, and narrow", async () => {
  const { page, end } = await open("", { locale: "zh-CN", colorScheme: "dark", viewport: { width: 390, height: 844 } });
  assert.equal(await page.getAttribute("html", "lang"), "zh-CN");
  await give(page, REFUSED);
  assert.equal(await status(page), "已拒绝");
  await page.locator("#options-box > summary").click();
  await checkAccess(page);
  assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window");
  const english = await page.locator("#options .about [lang=en]").allTextContents();
  assert.deepEqual(english, [], "options without a Chinese text");
  await page.evaluate("scrollTo(0, 0)");
  await picture(page, "chinese-dark-narrow");
  await page.selectOption("#language", "en");
  assert.equal(await status(page), "Refused");
  await page.evaluate("scrollTo(0, 0)");
  await picture(page, "dark-narrow");
  await end();
  const wide = await open("", { locale: "zh-CN", colorScheme: "dark" });
  await wide.page.locator("#example").click();
  await wide.page.waitForSelector("#result:not([hidden]) .badge");
  await checkAccess(wide.page);
  await wide.page.evaluate("scrollTo(0, 0)");
  await picture(wide.page, "chinese-dark");
  await wide.end();
});
