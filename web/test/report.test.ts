// The page of a report in Chromium, as the command writes it.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { checkAccess, launch, picture } from "./browser.js";
import { reportPage, room, ROOT } from "./command.js";

const FIXTURES = join(ROOT, "fixtures");
const MODULES = join(FIXTURES, "names/modules/model.onnx");
const REFUSED = join(FIXTURES, "refused/pooling_that_skips_elements_of_a_free_axis/model.onnx");

let browser: Browser;

before(async () => {
  browser = await launch();
});

after(() => browser?.close());

/** Opens a page, and fails if it logs a fault, violates its policy or asks for anything. */
async function open(file: string, settings: Parameters<Browser["newContext"]>[0] = {}): Promise<{ page: Page; end(): Promise<void> }> {
  const context = await browser.newContext({ acceptDownloads: true, viewport: { width: 1200, height: 760 }, ...settings });
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  context.on("request", (request) => !request.url().endsWith(file) && !/^(blob|data|about):/.test(request.url()) && faults.push(`a request to ${request.url()}`));
  await page.goto(`file://${file}`);
  await page.waitForSelector("html[data-ready]");
  return {
    page,
    end: async () => {
      assert.deepEqual(faults, []);
      await context.close();
    },
  };
}

const canvasOf = (page: Page, graph: string) => page.locator(`#${graph} > canvas:first-child`);
const data = (canvas: Locator, name: string) => canvas.getAttribute(`data-${name}`);
const numberOf = async (canvas: Locator, name: string) => Number(await data(canvas, name));
const show = (page: Page, graphs: string) => page.locator("#switch").getByRole("button", { name: graphs }).click();
const tool = (page: Page, graph: string, name: string) => page.locator(`#${graph} .tools`).getByRole("button", { name }).click();

async function find(page: Page, text: string): Promise<void> {
  await page.fill("#search", text);
  await page.press("#search", "Enter");
}

test("layers and nodes lead to each other", async () => {
  const { page, end } = await open(reportPage(MODULES));
  const [net, onnx] = [canvasOf(page, "net"), canvasOf(page, "onnx")];
  // A Split of the net belongs to no node; the output has an end of its own.
  assert.equal(await numberOf(net, "boxes"), 13);
  await find(page, "/body/body.0/act/Mul");
  assert.equal(await data(net, "chosen"), "/body/body.0/act/Mul");
  assert.match((await page.textContent("#said"))!, /^Swish .* 2 nodes of the model$/);
  const links = page.locator("#details ul", { hasText: "Sigmoid" }).getByRole("button", { name: "/body/body.0/act/", exact: false }).and(page.locator(".link"));
  assert.deepEqual(await links.allTextContents(), ["/body/body.0/act/Sigmoid", "/body/body.0/act/Mul"]);
  await show(page, "Both");
  assert.equal(await numberOf(onnx, "boxes"), 15);
  assert.equal(await numberOf(onnx, "linked"), 2);
  await checkAccess(page);
  await picture(page, "report-both");
  await links.first().click();
  assert.equal(await data(onnx, "chosen"), "/body/body.0/act/Sigmoid");
  assert.equal(await numberOf(net, "linked"), 1);
  assert.match((await page.textContent("#details"))!, /part of a layer/);
  await show(page, "ONNX");
  assert.ok(await page.locator("#net").isHidden());
  await find(page, "globalaveragepool");
  assert.equal(await data(onnx, "chosen"), "/pool/GlobalAveragePool");
  await page.click("#tab-nodes");
  await page.locator("#view-nodes .link", { hasText: "/head/Gemm" }).first().click();
  assert.equal(await data(onnx, "chosen"), "/head/Gemm");
  await end();
});

test("blocks are closed and opened by a click and by keys", async () => {
  const { page, end } = await open(reportPage(MODULES));
  const net = canvasOf(page, "net");
  await tool(page, "net", "collapse");
  const closed = await numberOf(net, "boxes");
  assert.ok(closed < 10, String(closed));
  await picture(page, "report-collapsed");
  await net.focus();
  const walk = async (steps: number) => {
    await net.press("Escape");
    for (let i = 0; i < steps; i++) await net.press("ArrowDown");
    return data(net, "chosen");
  };
  let steps = 1;
  while ((await walk(steps)) !== "/body/body.0" && steps < closed) steps++;
  assert.equal(await data(net, "chosen"), "/body/body.0");
  assert.match((await page.textContent("#said"))!, /^Block \/body\/body\.0 of \d+ layers/);
  await checkAccess(page);
  await net.press("Enter");
  const opened = await numberOf(net, "boxes");
  assert.ok(opened > closed);
  assert.match((await page.textContent("#said"))!, /^Opened \/body\/body\.0: \d+ boxes\.$/);
  await net.press("Backspace");
  assert.equal(await data(net, "chosen"), "/body/body.0");
  assert.equal(await numberOf(net, "boxes"), closed);
  // The chosen block is in the middle; a second click opens it.
  const { width, height } = (await net.boundingBox())!;
  await net.press("Escape");
  await walk(steps);
  await net.click({ position: { x: width / 2, y: height / 2 } });
  assert.equal(await numberOf(net, "boxes"), opened);
  await page.getByRole("button", { name: /close the block/ }).first().click();
  assert.equal(await numberOf(net, "boxes"), closed);
  await page.getByRole("button", { name: "Open the block" }).click();
  assert.equal(await numberOf(net, "boxes"), opened);
  // What is found in a block comes out of it.
  await tool(page, "net", "collapse");
  await find(page, "/body/body.1/conv1/Conv");
  assert.equal(await data(net, "chosen"), "/body/body.1/conv1/Conv");
  await tool(page, "net", "expand");
  assert.equal(await numberOf(net, "boxes"), 13);
  await end();
});

test("the graph is saved as SVG, in light colours", async () => {
  const { page, end } = await open(reportPage(MODULES), { colorScheme: "dark" });
  await page.click("#view-graph #switch button:text('ONNX')");
  const [download] = await Promise.all([page.waitForEvent("download"), tool(page, "onnx", "SVG")]);
  assert.equal(download.suggestedFilename(), "model.onnx.svg");
  const svg = readFileSync(await download.path(), "utf8");
  const read = await page.evaluate((svg) => {
    const root = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
    return { tag: root.nodeName, space: root.namespaceURI, faults: root.querySelectorAll("parsererror").length, texts: [...root.querySelectorAll("text")].map((text) => text.textContent) };
  }, svg);
  assert.deepEqual([read.tag, read.space, read.faults], ["svg", "http://www.w3.org/2000/svg", 0]);
  for (const text of ["Conv", "/pool/GlobalAveragePool", "[1, 8, 1, 1]", "Output"]) assert.ok(read.texts.includes(text), text);
  assert.match(svg, /fill="#f6f7f9"/);
  assert.doesNotMatch(svg, /NaN|undefined|#12161b/);
  await end();
});

test("texts are copied, and that is said", async () => {
  const { page, end } = await open(reportPage(REFUSED), { permissions: ["clipboard-read", "clipboard-write"] });
  const copied = async (button: Locator) => {
    await button.focus();
    await page.keyboard.press("Enter");
    await page.locator("#said", { hasText: /^Copied/ }).waitFor({ state: "attached" });
    return page.evaluate("navigator.clipboard.readText()");
  };
  assert.equal(await copied(page.locator("#view-diagnostics .copy")), "--input-shape x:1,4,64");
  await page.click("#tab-graph");
  assert.equal(await copied(page.getByRole("button", { name: "Copy output y" })), "y");
  await checkAccess(page);
  await end();
  const other = await open(reportPage(join(FIXTURES, "network/digits/model.onnx")), { permissions: ["clipboard-read", "clipboard-write"] });
  await other.page.click("#tab-model");
  await other.page.getByRole("button", { name: "Copy classes" }).click();
  assert.match(await other.page.evaluate("navigator.clipboard.readText()"), /^zero\none\n/);
  await checkAccess(other.page);
  await picture(other.page, "report-model");
  await other.end();
});

test("the minimap and keys move the view, and the map goes where everything is in sight", async () => {
  const { page, end } = await open(reportPage(MODULES));
  const map = page.locator("#net .map"), net = canvasOf(page, "net");
  const content = () => net.evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  await map.waitFor({ state: "visible" });
  const before = await content(), { x, y, width, height } = (await map.boundingBox())!;
  await page.mouse.move(x + width / 2, y + 2);
  await page.mouse.down();
  await page.mouse.move(x + width / 2, y + height - 2, { steps: 3 });
  await page.mouse.up();
  await page.waitForTimeout(100);
  const moved = await content();
  assert.notEqual(moved, before);
  await net.press("Shift+ArrowUp");
  await page.waitForTimeout(100);
  assert.notEqual(await content(), moved);
  await tool(page, "net", "fit");
  await map.waitFor({ state: "hidden" });
  await end();
});

test("the page is dark, and narrow", async () => {
  const { page, end } = await open(reportPage(MODULES), { colorScheme: "dark", viewport: { width: 390, height: 800 } });
  await show(page, "Both");
  for (const tab of await page.locator("#tabs button").all()) {
    await tab.click();
    await checkAccess(page);
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the window");
  }
  await page.click("#tab-graph");
  await picture(page, "report-dark-narrow");
  await end();
});

test("a frame of a notebook that is hidden at first shows the beginning", async () => {
  const file = join(room(), "notebook.html"), escaped = readFileSync(reportPage(MODULES), "utf8").replace(/&/g, "&amp;").replace(/"/g, "&quot;");
  writeFileSync(file, `<!doctype html><html data-ready><body><div id="output" style="display: none"><iframe sandbox="allow-scripts allow-downloads" allow="clipboard-write" style="width: 100%; height: 640px" srcdoc="${escaped}"></iframe></div>`);
  const { page, end } = await open(file);
  const frame = page.frameLocator("iframe"), net = frame.locator("#net > canvas:first-child");
  await frame.locator("html[data-ready]").waitFor({ state: "attached" });
  await page.evaluate("document.getElementById('output').style.display = ''");
  await frame.locator("#net > canvas[data-drawn]").waitFor();
  const middle = await net.evaluate((canvas: HTMLCanvasElement) => {
    const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, 100);
    const columns = Array.from(data, (value, i) => (i % 4 === 3 && value ? ((i - 3) / 4) % canvas.width : -1)).filter((x) => x >= 0);
    return columns.length ? (Math.min(...columns.slice(0, 5000)) + Math.max(...columns.slice(0, 5000))) / 2 / canvas.width : -1;
  });
  assert.ok(Math.abs(middle - 0.5) < 0.1, `the first box is at ${middle}`);
  await frame.getByRole("button", { name: "Copy input x" }).click();
  await frame.locator("#said", { hasText: "Copied" }).waitFor({ state: "attached" });
  const [download] = await Promise.all([page.waitForEvent("download"), frame.getByRole("button", { name: "SVG" }).click()]);
  assert.equal(download.suggestedFilename(), "model.net.svg");
  await end();
});

test("thousands of nodes are laid out in a second, without their constants", async () => {
  const text = readFileSync(reportPage(MODULES), "utf8"), [head, rest] = text.split('id="report">') as [string, string], end = rest.indexOf("</script>");
  const report = JSON.parse(rest.slice(0, end)), base = { ...report.nodes[0], layers: [] };
  // The fourth node is a constant for the fifth, and so on.
  report.nodes = Array.from({ length: 2001 }, (_, index) => {
    const constant = index % 4 === 3, before = index === 0 ? ["x"] : index % 4 === 0 ? [`v${index - 2}`, `v${index - 1}`] : [`v${index - 1}`];
    const kind = constant ? { op_type: "Constant", becomes: "folded", inputs: [] } : { op_type: "Sin", becomes: "layers", inputs: before };
    return { ...base, ...kind, index, name: `n${index}`, outputs: [`v${index}`] };
  });
  for (const layer of report.net.layers) layer.nodes = [];
  const file = join(room(), "large.html");
  writeFileSync(file, `${head}id="report">${JSON.stringify(report).replace(/</g, "\\u003c")}${rest.slice(end)}`);
  const opened = await open(file), onnx = canvasOf(opened.page, "onnx");
  await show(opened.page, "ONNX");
  assert.equal(await numberOf(onnx, "boxes"), 1502);
  const milliseconds = await opened.page.evaluate(() => {
    const start = performance.now();
    (document.querySelector('#onnx [aria-label="expand all blocks"]') as HTMLElement).click();
    return performance.now() - start;
  });
  assert.equal(await numberOf(onnx, "boxes"), 2002);
  assert.ok((await numberOf(onnx, "drawn")) < 50);
  // A busy machine takes longer.
  assert.ok(milliseconds < 4000, `${milliseconds} ms`);
  await opened.end();
});

/** A report page with a comparison, as `verify --html` and Python write it. */
function comparedPage(): string {
  const text = readFileSync(reportPage(MODULES), "utf8"), [head, rest] = text.split('id="report">') as [string, string], end = rest.indexOf("</script>");
  const report = JSON.parse(rest.slice(0, end)), blobs: string[] = report.net.layers.flatMap((layer: { tops: string[] }) => layer.tops);
  const distance = (name: string, blob: string, i: number) => ({ name, blob, same: true, max_abs: 1e-6, relative: 10 ** (i - 7), cosine: 1, why: "", note: "", seconds: i / 1000 });
  const inner = report.nodes.flatMap((node: { outputs: string[] }) => node.outputs).filter((name: string) => blobs.includes(name));
  const [output] = report.net.outputs;
  report.comparison = { outputs: [{ ...distance(output.name, output.blob, 2), same: false }], layers: inner.slice(0, 6).map((name: string, i: number) => distance(name, name, i)), seconds: 0.015 };
  const file = join(room(), "compared.html");
  writeFileSync(file, `${head}id="report">${JSON.stringify(report).replace(/</g, "\\u003c")}${rest.slice(end)}`);
  return file;
}

test("errors and times colour the graph", async () => {
  const { page, end } = await open(comparedPage());
  const net = canvasOf(page, "net");
  const colours = page.locator("#net .tools").getByLabel("Colours of the boxes");
  const content = () => net.evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const shown = async (name: string) => {
    await colours.selectOption({ label: name });
    await page.waitForTimeout(100);
    return [await data(net, "heat"), await page.locator("#net .scale").isVisible(), await content()] as const;
  };
  assert.match((await page.textContent("#facts"))!, /checkeddiffers in .*time on the device15 ms/);
  assert.equal(await data(net, "heat"), "error");
  await picture(page, "report-errors");
  const pictures = [await shown("Error"), await shown("Time"), await shown("Kind")];
  assert.deepEqual(pictures.map(([heat, scale]) => [heat, scale]), [["error", true], ["time", true], ["", false]]);
  assert.equal(new Set(pictures.map(([, , image]) => image)).size, 3);
  // A box has its numbers beside the graph, and the tables have columns of them.
  await shown("Error");
  await find(page, "/body/body.0/conv1/Conv");
  assert.match((await page.textContent("#details"))!, /Compared with the model.*relative error/);
  await page.click("#tab-layers");
  await page.locator("#view-layers th button", { hasText: "Time" }).click();
  assert.match((await page.locator("#view-layers tbody tr:not(.space)").first().textContent())!, /5 ms/);
  await page.click("#tab-graph");
  await checkAccess(page);
  await end();
});

test("no button covers the graph, and a pointer reads whole names", async () => {
  for (const viewport of [{ width: 1400, height: 850 }, { width: 390, height: 800 }]) {
    const { page, end } = await open(reportPage(join(FIXTURES, "names/modules/model.onnx")), { viewport });
    await show(page, "Both");
    for (const graph of ["net", "onnx"]) {
      const canvas = (await canvasOf(page, graph).boundingBox())!;
      for (const button of await page.locator("#view-graph button").all()) {
        const box = await button.boundingBox();
        const apart = !box || box.y >= canvas.y + canvas.height || box.y + box.height <= canvas.y || box.x >= canvas.x + canvas.width || box.x + box.width <= canvas.x;
        assert.ok(apart, `${await button.textContent()} at ${viewport.width}`);
      }
    }
    await end();
  }
  const text = readFileSync(reportPage(MODULES), "utf8"), long = `/first_${"of_many_letters_".repeat(4)}last`, file = join(room(), "long.html");
  writeFileSync(file, text.replaceAll("/pool/GlobalAveragePool", long));
  const { page, end } = await open(file);
  await find(page, long);
  const net = canvasOf(page, "net"), { x, y, width, height } = (await net.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height / 2);
  assert.ok((await net.getAttribute("title"))!.includes(long));
  await page.click("#tab-layers");
  const link = page.locator(`#view-layers .link[title="${long}"]`);
  assert.match((await link.textContent())!, /^\/first_.*\u2026.*last$/);
  await end();
});

test("a refused page begins with what the model is", async () => {
  const { page, end } = await open(reportPage(REFUSED), { viewport: { width: 390, height: 800 } });
  assert.match((await page.textContent("#facts"))!, /converteronnx2ncnn \d/);
  const cards = page.locator("#view-diagnostics .card");
  assert.match((await cards.first().textContent())!, /^inputsx float \[1, 4, .*outputsy float.*operator sets.*ai\.onnx \d+/);
  assert.match((await cards.nth(1).getAttribute("class"))!, /error/);
  assert.ok(await page.evaluate(() => [...document.querySelectorAll(".card")].every((card) => card.scrollWidth <= card.clientWidth)));
  await end();
});
