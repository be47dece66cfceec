// Pages of the tool in Chromium: node test/browser.mjs TOOL. Marks are the numbers of the JSON, nothing is loaded, nothing
// scrolls sideways at 390 pixels, axe-core finds nothing, the keyboard reaches the charts, names that are HTML stay text.
import axe from "axe-core";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
if (!existsSync(executablePath)) {
  console.log("report: pages in a browser skipped, since chromium is not installed");
  process.exit(0);
}
const command = resolve(process.argv[2]);
const folder = mkdtempSync(join(tmpdir(), "corestack-pages-"));
const at = (name) => join(folder, name);
const run = (...words) => execFileSync(command, words, { stdio: ["ignore", "ignore", "inherit"] });
const examples = new URL("../../examples/", import.meta.url).pathname;

// ---- pools ----

function npy(name, type, shape, values) {
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`;
  const header = Buffer.from(text.padEnd(128 - 10 - 1) + "\n", "latin1");
  const array = type === "<f4" ? Float32Array.from(values) : Int32Array.from(values);
  writeFileSync(at(name), Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), Buffer.from([header.length & 255, header.length >> 8]), header, Buffer.from(array.buffer)]));
}

let state = 1;
const random = () => ((state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff);

function pool(name, members, rows, classes) {
  const labels = Array.from({ length: rows }, (_, i) => i % classes.length);
  const models = members.map((member, k) => {
    const values = labels.flatMap((label) => {
      const scores = classes.map((_, c) => Math.exp(2 * random() + (c === label ? 1 + (k % 5) / 5 : 0)));
      const sum = scores.reduce((a, b) => a + b, 0);
      return scores.map((score) => score / sum);
    });
    npy(`${name}.${k}.npy`, "<f4", [rows, classes.length], values);
    return { name: member, flops: 1000 * (k + 1), predictions: { oof: `${name}.${k}.npy`, test: `${name}.${k}.npy` } };
  });
  npy(`${name}.labels.npy`, "<i4", [rows], labels);
  const split = { labels: `${name}.labels.npy` };
  writeFileSync(at(`${name}.json`), JSON.stringify({ corestack_pool: 1, task: "classification", classes, splits: { oof: split, test: split }, models }));
  return at(`${name}.json`);
}

const hostile = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>";
const pages = {};
function make(name, manifest, ...options) {
  run("fit", manifest, "-o", at(name + ".cstack"), "--html", at(name + ".fit.html"), ...options);
  run("report", at(name + ".cstack"), manifest, "-o", at(name + ".html"), "-r", "200");
  pages[name] = at(name + ".html");
  pages[name + ".fit"] = at(name + ".fit.html");
}
make("digits", examples + "digits/pool.json");
for (const task of ["concrete", "segmentation", "detection", "multilabel"]) make(task, examples + task, "--set", "evaluate.nested=false");
make("hostile", pool("hostile", [hostile, "\"'&amp;", "c".repeat(200)], 150, ["a", hostile, "c"]));
make("many", pool("many", Array.from({ length: 300 }, (_, k) => `model ${k}`), 150, ["a", "b", "c"]), "--set", "evaluate.nested=false");
make("classes", pool("classes", ["a", "b"], 2000, Array.from({ length: 1000 }, (_, k) => `class ${k}`)), "--set", "evaluate.nested=false");
run("compare", examples + "digits/pool.json", "--split", "test", "-m", "best-single,average,greedy", "-r", "200", "--html", at("compare.html"));
pages.compare = at("compare.html");
run("inspect", examples + "digits/pool.json", "--html", at("inspect.html"));
pages.inspect = at("inspect.html");

// ---- checks ----

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

async function open(path, width, colorScheme) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: false });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => request.url() !== "file://" + path && faults.push("request: " + request.url()));
  await page.goto("file://" + path);
  await page.waitForTimeout(200);
  return { page, faults, done: () => context.close() };
}

// axe-core is injected, which the policy of the page refuses: this context alone goes without it.
async function violations(path, colorScheme) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme, bypassCSP: true });
  const page = await context.newPage();
  await page.goto("file://" + path);
  await page.waitForTimeout(200);
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => (await window.axe.run()).violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")}`));
  await context.close();
  return found;
}

const same = (marks, values) => assert.deepEqual(marks.map(Number).sort((a, b) => a - b), [...values].sort((a, b) => a - b));

async function marksAreTheNumbers(page, data) {
  const marks = (selector, key) => page.$$eval(selector, (list, name) => list.map((mark) => mark.getAttribute(name)), key);
  const score = { classification: "nll", regression: "rmse", segmentation: "miou", detection: "AP", multilabel: "log_loss" };
  if (data.evaluate) {
    const key = score[data.evaluate.task];
    same(await marks("#better .point", "data-value"), [data.evaluate, ...(data.evaluate.baselines ?? [])].map((row) => row[key]));
    const weights = data.show.members.map((m) => m.weight).filter((w) => w !== null);
    same(await marks("#which .bar rect", "data-value"), weights);
  }
  if (data.evaluate?.reliability) {
    const filled = [data.evaluate.reliability, data.evaluate.baselines?.[0]?.reliability ?? []].flat().filter((bin) => bin.count);
    same(await marks("#trust .point", "data-y"), filled.map((bin) => bin.accuracy));
    same(await marks("#wrong .point", "data-value"), data.evaluate.per_class.map((c) => c.top1));
  }
  if (data.fit?.path?.length > 1) {
    same(await marks("#which .chart .point", "data-y"), data.fit.path.map((step) => step.loss));
    same(await marks("#which .chart .point", "data-x"), data.fit.path.map((step) => step.size));
  }
  if (data.compare) same(await marks("#better .point", "data-value"), data.compare.rows.map((row) => row.nll));
}

async function keyboard(page) {
  for (const chart of await page.$$(".chart svg, canvas")) {
    const readout = () => chart.evaluate((element) => element.closest(".chartbox").querySelector(".readout").textContent);
    const before = await readout();
    await chart.focus();
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await readout(), before, "a chart does not answer the arrow keys");
  }
  const header = await page.$("#better thead button");
  if (!header) return;
  await header.focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.$eval("#better th[aria-sort]", (cell) => cell.getAttribute("aria-sort")), "ascending");
  assert.equal(await page.evaluate(() => document.activeElement.closest("th")?.getAttribute("aria-sort")), "ascending", "the focus is lost");
}

let failed = 0;
for (const [name, path] of Object.entries(pages)) {
  try {
    for (const [width, scheme] of [[1280, "light"], [390, "dark"]]) {
      const { page, faults, done } = await open(path, width, scheme);
      const data = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
      assert.deepEqual(faults, []);
      assert.ok((await page.$$("section")).length >= 2, "no sections");
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `scrolls sideways at ${width}`);
      const text = await page.innerText("main");
      assert.ok(!/undefined|NaN|\[object|Infinity/.test(text), "a word of JavaScript: " + text.match(/.{30}(undefined|NaN|\[object|Infinity).{30}/s)?.[0]);
      if (width === 1280) await marksAreTheNumbers(page, data);
      await keyboard(page);
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      assert.equal((await page.$$("img, iframe, object, main script")).length, 0);
      if (name.startsWith("hostile")) assert.ok(text.includes(hostile));
      await page.emulateMedia({ media: "print" });
      assert.ok((await page.pdf({ format: "A4" })).length > 10000);
      assert.deepEqual(faults, []);
      await done();
    }
    for (const scheme of ["light", "dark"]) assert.deepEqual(await violations(path, scheme), []);
    console.log("ok      " + name);
  } catch (error) {
    failed++;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}
await browser.close();
rmSync(folder, { recursive: true });
console.log(`${Object.keys(pages).length} pages in a browser, ${failed} failed`);
process.exit(failed ? 1 : 0);
