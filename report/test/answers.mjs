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
  [page(0.3, clear(1)), /is better than the best single model: NLL 0.200 against 0.300/, "better", /33% lower .* clearly beats 1 of 1 other method, and none clearly beats it/],
  [page(0.1, clear(-1)), /is worse than the best single model/, "better", /100.0% higher .* beats none of 1 other method, and clearly loses to 1/],
  [page(0.21, { nll: 0.01, nll_ci: [-0.1, 0.1] }), /^No clear difference from the best single model/, "better", /beats none of 1 other method, and none clearly beats it/],
  [page(0.3, undefined), /without a test/, "better", /intervals and tests were not computed/],
  [page(0.3, clear(1), { seen_in_fitting: true }), /^The fit saw these rows.* no estimate/, "better", /on rows that the fit saw/],
];
const monitor = (more) => ({ corestack: "0.1.0", monitor: { alarm: false, alpha: 0.01, evidence: 1, evidence_peak: 2, evidence_alarm: 100, rows: 500, batches: [], ...more } });
const sweep = (values, scores, more = {}) => ({ corestack: "0.1.0", sweep: { key: "keep.max", task: "classification", split: "test", samples: 100, models_in: 9, ...more,
  rows: values.map((value, i) => ({ method: "default", value, nll: scores[i], models: i + 1, flops_rel: (i + 1) / 10, ...(more.ci ? { nll_ci: [scores[i] - more.ci, scores[i] + more.ci] } : {}) })) } });
wanted.push(
  [monitor({}), /^No sign of a change: evidence reached 2.0 in 500 rows, and an alarm takes 100/, "changed"],
  [monitor({ evidence_peak: 30 }), /^Perhaps it has: evidence reached 30.0/, "changed"],
  [monitor({ alarm: true, first_alarm: { number: 2, batch: "monday" } }), /^Yes: .*; the alarm came in batch monday/, "changed"],
  [monitor({ alarm: true }), /^Yes: the rows are not like those of the fit\.$/, "changed"],
  [monitor({ rows: 12 }), /^Too few rows to tell: 12 rows gave no alarm/, "changed"],
  [monitor({ rows: 0 }), /^No row could be tested/, "changed"],
  [{ ...page(0.3, clear(1)), ...monitor({}) }, /is better than/, "changed", /^No sign of a change/],
  [sweep(["1", "2", "3"], [0.4, 0.2, 0.3]), /^NLL is lowest with keep.max 2: 0.200, against 0.400 with 1/, "cost", /^From 10% to 30% of the cost of all models, NLL goes from 0.400 to 0.300/],
  [sweep(["1", "2"], [0.4, 0.4]), /^The value of keep.max changes nothing: NLL is 0.400 with all 2 values/, "better"],
  [sweep(["1", "2"], [0.4, 0.39], { ci: 0.1 }), /^No value of keep.max is clearly best: NLL is lowest with 2, 0.390, and all lie within its interval/, "better"],
  [{ corestack: "0", sweep: { key: "keep.max", task: "classification", split: "test", samples: 9, models_in: 9, rows: [["a", 0.3, 0.2], ["b", 0.5, 0.1], ["b", 0.4, 0.9]].map(([method, nll, flops_rel], i) => ({ method, value: String(i % 2), nll, flops_rel })) .concat({ method: "a", value: "2", nll: 0.2, flops_rel: 0.5 }) } },
    /^NLL is lowest with keep.max 2: 0.200 \(method a\), against 0.500 with 1 \(b\)/, "cost", /^From 20% to 50% of the cost of all models, NLL of a goes from 0.300 to 0.200/],
  [sweep(["1"], [0.4]), /the only value tried/, "better"],
  [sweep(["0", "1"], [0.4, 0.5], { key: "seed", summary: [{ method: "default", nll_mean: 0.45, nll_se: 0.05 }] }), /^Over 2 seeds NLL is 0.450 on average, from 0.400 to 0.500/, "better"],
);
for (const [documents, title, id, pattern = title] of wanted)
  for (const [said, expected] of [[verdictOf(documents), title], [answers(documents).find((a) => a.id === id).headline, pattern]]) {
    failed += !expected.test(said);
    if (!expected.test(said)) console.log(`BAD ${said} is not ${expected}`);
  }
console.log(`${pages} pages, ${failed} failed`);
process.exit(failed || !pages ? 1 : 0);
