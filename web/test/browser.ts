// Chromium, and what is asked of each page.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const SCREENSHOTS = process.env.SCREENSHOTS;

export function launch(): Promise<Browser> {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
}

export async function checkAccess(page: Page): Promise<void> {
  await page.evaluate(AXE);
  const found = await page.evaluate("axe.run({ iframes: false })") as { violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] };
  assert.deepEqual(found.violations.map(({ id, nodes }) => [id, nodes.map((node) => `${node.html}: ${node.failureSummary}`)]), []);
}

export async function picture(page: Page, name: string): Promise<void> {
  if (!SCREENSHOTS) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}
