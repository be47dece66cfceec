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
console.log(`${pages} pages, ${failed} failed`);
process.exit(failed || !pages ? 1 : 0);
