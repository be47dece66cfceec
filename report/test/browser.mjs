// Pages of the tool in Chromium: node test/browser.mjs TOOL [--write]. Marks are the numbers of the JSON, nothing is loaded, nothing
// scrolls sideways at 390 pixels, axe-core finds nothing, the keyboard reaches the charts, names that are HTML stay text. A page with fixed data looks like the small
// pictures in test/shots, which --write makes anew.
import axe from "axe-core";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium } from "playwright-core";
import { pool } from "./pools.mjs";

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
make("hostile", pool(at, "hostile", [hostile, "\"'&amp;", "c".repeat(200)], 150, ["a", hostile, "c"]));
make("many", pool(at, "many", Array.from({ length: 300 }, (_, k) => `model ${k}`), 150, ["a", "b", "c"]), "--set", "evaluate.nested=false");
make("classes", pool(at, "classes", ["a", "b"], 2000, Array.from({ length: 1000 }, (_, k) => `class ${k}`)), "--set", "evaluate.nested=false");
run("compare", examples + "digits/pool.json", "--split", "test", "-m", "best-single,average,greedy", "-r", "200", "--html", at("compare.html"));
pages.compare = at("compare.html");
run("inspect", examples + "digits/pool.json", "--html", at("inspect.html"));
pages.inspect = at("inspect.html");
function page(name, ...words) {
  run(...words, name === "cascade" || name === "conditions" ? "-o" : "--html", at(name + ".html"));
  pages[name] = at(name + ".html");
}
const quick = ["--set", "evaluate.nested=false"];
run("fit", examples + "digits", "-o", at("cascade.cstack"), "--cascade", ...quick);
page("cascade", "report", at("cascade.cstack"), examples + "digits", "-r", "200");
run("fit", examples + "cifar10", "-o", at("cifar10.cstack"), ...quick);
page("conditions", "report", at("cifar10.cstack"), examples + "cifar10", "--split", "corrupted", "-r", "100");
execFileSync("sh", ["-c", '"$0" monitor "$1" "$2" --split corrupted --html "$3" >/dev/null; test $? = 1', command, at("cifar10.cstack"), examples + "cifar10", at("monitor.html")]);
pages.monitor = at("monitor.html");
page("monitor.hostile", "monitor", at("hostile.cstack"), at("hostile.json"), "--split", "test");
page("sweep.budget", "sweep", examples + "digits", "--over", "keep.max_flops=1e4,1e6,0", "-m", "compact", "--split", "test", "-r", "100");
page("sweep.size", "sweep", examples + "digits", "--over", "pool.size=4:12:4", "-m", "average,ridge", "--split", "test");

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
    const key = data.evaluate.task === "segmentation" ? "iou" : "top1";
    same(await marks("#wrong .point", "data-value"), data.evaluate.per_class.map((c) => c[key]));
  }
  if (data.fit?.path?.length > 1) {
    same(await marks("#which .chart .point", "data-y"), data.fit.path.map((step) => step.loss));
    same(await marks("#which .chart .point", "data-x"), data.fit.path.map((step) => step.size));
  }
  if (data.sweep?.key === "keep.max_flops") {
    same(await marks("#better .chart .point", "data-y"), data.sweep.rows.map((row) => row.nll));
    same(await marks("#cost .chart .point", "data-x"), data.sweep.rows.map((row) => row.flops_rel));
  }
  if (data.monitor?.batches.length > 1)
    same(await marks("#changed .chart .point", "data-y"), data.monitor.batches.map((batch) => Math.log10(batch.evidence)));
  if (data.evaluate?.conditions) same(await marks("#wrong .point", "data-value"), data.evaluate.conditions.map((one) => one.top1));
  if (data.show?.cascade) same(await marks("#cost figure:last-of-type .point", "data-x"), data.show.cascade.stages.map((stage) => stage.cost));
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
  const header = await page.$("#better th:not([aria-sort]) button");
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
      for (const headline of await page.$$eval("h1, h2, nav .a", (list) => list.map((one) => one.textContent)))
        assert.ok(!/undefined|NaN|null|(^|[\s(])–([\s).,;]|$)/.test(headline) && headline.endsWith("."), "a headline: " + headline);
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

// ---- pictures ----

// A page with the documents of tests/golden as data, at an eighth of its size.
const golden = (name) => JSON.parse(readFileSync(new URL(`../../tests/golden/${name}.digits-small.json`, import.meta.url), "utf8"));
const fixed = { corestack: "0", ...Object.fromEntries(["fit", "evaluate", "show", "inspect", "bound"].map((name) => [name, golden(name)])) };
writeFileSync(at("fixed.html"), readFileSync(pages.inspect, "utf8").replace(/(id="data">).*?(<\/script>)/s, (_, before, after) =>
  before + JSON.stringify(fixed).replace(/[<>&]/g, (c) => "\\u00" + c.charCodeAt(0).toString(16)) + after));
const blank = await browser.newPage();
// Both as pixels of one eighth: the share of those that differ, or the picture itself.
const compare = (found, wanted) => blank.evaluate(async ([found, wanted]) => {
  const small = async (data, scale) => {
    const picture = await createImageBitmap(await (await fetch("data:image/png;base64," + data)).blob());
    const canvas = Object.assign(document.createElement("canvas"), { width: Math.round(picture.width / scale), height: Math.round(picture.height / scale) });
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas;
  };
  const mine = await small(found, 8);
  if (!wanted) return mine.toDataURL("image/png").split(",")[1];
  const other = await small(wanted, 1);
  const [a, b] = [mine, other].map((canvas) => canvas.getContext("2d").getImageData(0, 0, Math.min(mine.width, other.width), Math.min(mine.height, other.height)).data);
  let far = Math.abs(mine.height - other.height) * mine.width;
  for (let i = 0; i < a.length; i += 4) far += Math.max(...[0, 1, 2].map((c) => Math.abs(a[i + c] - b[i + c]))) > 48;
  return far / (mine.width * mine.height);
}, [found, wanted]);
for (const [name, width, scheme, media] of [["light", 1280, "light", "screen"], ["dark", 390, "dark", "screen"], ["print", 794, "light", "print"]]) {
  const { page, done } = await open(at("fixed.html"), width, scheme);
  await page.emulateMedia({ media, colorScheme: scheme });
  await page.waitForTimeout(200);
  const found = (await page.screenshot({ fullPage: true })).toString("base64");
  const file = new URL(`shots/${name}.png`, import.meta.url);
  if (process.argv.includes("--write")) writeFileSync(file, Buffer.from(await compare(found), "base64"));
  const far = await compare(found, readFileSync(file).toString("base64"));
  const same = far <= 0.02;
  failed += !same;
  console.log(`${same ? "ok     " : "FAILED "} picture ${name}: ${(100 * far).toFixed(2)}% of it differ${!same ? "; look at the page, then run scripts/report.sh --pictures (other fonts also differ)" : ""}`);
  await done();
}
await browser.close();
rmSync(folder, { recursive: true });
console.log(`${Object.keys(pages).length} pages in a browser, ${failed} failed`);
process.exit(failed ? 1 : 0);
