// Times predictions of made-up rows with a package of scripts/wasm.sh, as bench/serve.c does.
const { load } = await import(`${process.argv[2]}/index.js`);
const stack = await load();
const count = 4096;
const made = stack.members.map(() => {
  const rows = new Float32Array(count * stack.classes).map(() => Math.random() + 1e-3);
  for (let i = 0; i < rows.length; i += stack.classes) {
    const sum = rows.subarray(i, i + stack.classes).reduce((a, b) => a + b);
    for (let c = 0; c < stack.classes; c++) rows[i + c] /= sum;
  }
  return rows;
});
let line = "";
for (const size of [1, count]) {
  let best = Infinity;
  for (let repeat = 0; repeat < 7; repeat++) {
    const start = performance.now();
    for (let i = 0; i < count; i += size)
      stack.predict(made.map((rows) => rows.subarray(i * stack.classes, (i + size) * stack.classes)));
    best = Math.min(best, (1e3 * (performance.now() - start)) / count);
  }
  line += ` | ${best.toFixed(2)}`;
}
console.log(`${line} |`);
