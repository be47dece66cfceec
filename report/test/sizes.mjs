// How large pages are and how long they take: node test/sizes.mjs TOOL prints a Markdown table.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";
import { pool } from "./pools.mjs";

const command = resolve(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), "corestack-sizes-"));
const at = (name) => join(folder, name);
const names = (what, n) => Array.from({ length: n }, (_, k) => `${what} ${k}`);
const digits = new URL("../../examples/digits/pool.json", import.meta.url).pathname;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

function timed(...words) {
  const start = performance.now();
  execFileSync(command, words, { stdio: ["ignore", "ignore", "inherit"] });
  return ((performance.now() - start) / 1000).toFixed(1);
}

// Milliseconds until it is drawn, and elements.
async function drawn(path) {
  const page = await browser.newPage();
  await page.goto("file://" + path);
  const found = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
    done([performance.now(), document.querySelectorAll("*").length])))));
  await page.close();
  return found;
}

console.log("| pool | page of | KB | command, s | drawn, ms | elements |\n|---|---|---|---|---|---|");
for (const [what, manifest] of [
  ["`digits`", digits],
  ["300 members, 500 rows, 10 classes", pool(at, "members", names("model", 300), 500, names("class", 10))],
  ["3 members, 5,000 rows, 1,000 classes", pool(at, "classes", names("model", 3), 5000, names("class", 1000))],
  ["5 members, 100,000 rows, 10 classes", pool(at, "rows", names("model", 5), 100000, names("class", 10))],
])
  for (const [kind, ...words] of [["fit --html", "fit", manifest, "-o", at("m.cstack"), "--set", "evaluate.nested=false", "--html"], ["report", "report", at("m.cstack"), manifest, "-o"]]) {
    const seconds = timed(...words, at("page.html"));
    const [ms, elements] = await drawn(at("page.html"));
    console.log(`| ${what} | \`${kind}\` | ${Math.ceil(statSync(at("page.html")).size / 1000)} | ${seconds} | ${Math.round(ms)} | ${elements.toLocaleString("en-US")} |`);
  }
await browser.close();
rmSync(folder, { recursive: true });
