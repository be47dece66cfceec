// Headlines over the documents of files: those of tests/golden, in the sets that a page has. No browser.
import { answers, verdictOf } from "../build/answers.mjs";
import { readFileSync } from "node:fs";

// An argument is one page: FILE+FILE+..., each a document or a page with documents.
const bad = /undefined|NaN|null|\[object|Infinity|^\s*$|(^|[\s(])–([\s).,;]|$)/;
let pages = 0;
let failed = 0;
for (const argument of process.argv.slice(2)) {
  let documents = { corestack: "0.1.0" };
  for (const file of argument.split("+")) {
    const text = readFileSync(file, "utf8");
    const data = /<script type="application\/json"[^>]*>(.*?)<\/script>/s.exec(text);
    const read = JSON.parse(data ? data[1] : text);
    documents = data ? { ...documents, ...read } : { ...documents, [read.command]: read };
  }
  pages++;
  const said = [["title", verdictOf(documents)], ...answers(documents).map((a) => [a.id, a.headline])];
  for (const [id, headline] of said) {
    const ok = !bad.test(headline) && headline.endsWith(".");
    failed += !ok;
    if (!ok || process.env.SHOW) console.log(`${ok ? "" : "BAD "}${argument} ${id}: ${headline}`);
  }
  if (said.length < 2) {
    failed++;
    console.log(`${argument}: no answer`);
  }
}

// Wording of each verdict.
const page = (row, difference, more = {}) => ({ corestack: "0.1.0", evaluate: { task: "classification", split: "test", samples: 100, seen_in_fitting: false, nll: 0.2, ...more,
  baselines: [{ method: "best-single", nll: row, difference }] } });
const clear = (sign) => ({ nll: 0.1 * sign, nll_ci: [0.1 * sign - 0.05, 0.1 * sign + 0.05] });
const wanted = [
  [page(0.3, clear(1)), /is better than the best single model: NLL 0.200 against 0.300/, /33% lower .* clearly beats 1 of 1 other method, and none clearly beats it/],
  [page(0.1, clear(-1)), /is worse than the best single model/, /100.0% higher .* beats none of 1 other method, and clearly loses to 1/],
  [page(0.21, { nll: 0.01, nll_ci: [-0.1, 0.1] }), /^No clear difference from the best single model/, /beats none of 1 other method, and none clearly beats it/],
  [page(0.3, undefined), /without a test/, /intervals and tests were not computed/],
  [page(0.3, clear(1), { seen_in_fitting: true }), /^The fit saw these rows.* no estimate/, /on rows that the fit saw/],
];
for (const [documents, title, better] of wanted)
  for (const [said, pattern] of [[verdictOf(documents), title], [answers(documents).find((a) => a.id === "better").headline, better]]) {
    failed += !pattern.test(said);
    if (!pattern.test(said)) console.log(`BAD ${said} is not ${pattern}`);
  }
console.log(`${pages} pages, ${failed} failed`);
process.exit(failed || !pages ? 1 : 0);
