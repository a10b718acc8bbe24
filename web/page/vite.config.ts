import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig, type Plugin } from "vite";
import { openFile } from "../npm/dist/node.js";

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const EXAMPLE = at("../../fixtures/network/convolutional/model.onnx");
const OUT = at("../../target/dist/page");

/** The hashes of the script and the style of a report, which do not depend on the model. */
async function reportHashes(): Promise<Record<"script" | "style", string>> {
  const page = (await openFile(EXAMPLE)).convert().html;
  const hash = (tag: string) => {
    const content = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(page)?.[1];
    if (content === undefined) throw new Error(`the report has no ${tag}`);
    return `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
  };
  return { script: hash("script"), style: hash("style") };
}

/** The policy that permits the page its own files alone, and the script of a report in a frame. */
async function policy(): Promise<string> {
  const { script, style } = await reportHashes();
  return `default-src 'none'; script-src 'self' 'wasm-unsafe-eval' ${script}; style-src 'self' ${style}; connect-src 'self'; `
    + "worker-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'";
}

function contentSecurityPolicy(): Plugin {
  return {
    name: "content-security-policy",
    apply: "build",
    async transformIndexHtml(html) {
      return html.replace("%POLICY%", await policy());
    },
    // Where a host reads such a file, the policy holds for the worker, too. The documents have scripts of their own.
    async closeBundle() {
      const headers = `  Content-Security-Policy: ${await policy()}; frame-ancestors 'none'\n  X-Content-Type-Options: nosniff\n`;
      writeFileSync(`${OUT}/_headers`, ["/", "/index.html", "/assets/*"].map((path) => `${path}\n${headers}`).join(""));
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [contentSecurityPolicy()],
  worker: { format: "es" },
  resolve: { conditions: ["browser", "import", "default"] },
  build: { outDir: OUT, emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false }, target: "es2022" },
});
