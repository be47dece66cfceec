// Predicts with a package of scripts/wasm.sh, for test_serving.py: raw rows of each member into raw rows; the second member is absent
// in a second call.
//
//     node package.mjs FOLDER OUT FILE...
import { readFileSync, writeFileSync } from "node:fs";

const [folder, out, ...files] = process.argv.slice(2);
const { load } = await import(`${folder}/index.js`);
const stack = await load();
const rows = files.map((file) => {
  const bytes = readFileSync(file);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
});
const start = performance.now();
const found = stack.predict(rows);
const each = (1e3 * (performance.now() - start)) / (found.length / stack.classes);
writeFileSync(out, Buffer.from(found.buffer));
writeFileSync(`${out}.present`, Buffer.from(stack.predict(rows.map((r, k) => (k === 1 ? null : r))).buffer));
rows[0][0] = NaN;
let message = "";
try {
  stack.predict(rows);
} catch (error) {
  message = error.message;
}
const decided = stack.task === "classification" ? [...stack.decide(found).slice(0, 5)] : [];
console.log(JSON.stringify({ task: stack.task, members: stack.members, classes: stack.classes, names: stack.classNames, message, decided, each }));
stack.free();
