// Times predictions of made-up rows, as bench/serve.c does, in Node or in a page (bench/serve_browser.py).
//   node bench/serve.mjs PACKAGE               a package of `corestack export --format wasm`
//   node bench/serve.mjs GRAPH RUNTIME         a graph of `--format onnx`; RUNTIME: a folder with node_modules/onnxruntime-node
const page = typeof process === "undefined";
const [path, runtime] = page ? ["."] : process.argv.slice(2);

async function graph() {
  const { createRequire } = await import("node:module");
  const ort = createRequire(`${runtime}/`)("onnxruntime-node");
  const session = await ort.InferenceSession.create(path, { intraOpNumThreads: 1 });
  const classes = 10;
  const predict = (rows) => session.run(Object.fromEntries(
    session.inputNames.map((name, k) => [name, new ort.Tensor("float32", rows[k], [rows[k].length / classes, classes])])));
  return { members: session.inputNames, classes, predict };
}

const stack = runtime ? await graph() : await (await import(`${path}/index.js`)).load();
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
    for (let i = 0; i < count; i += size) {
      const out = stack.predict(made.map((rows) => rows.subarray(i * stack.classes, (i + size) * stack.classes)));
      if (runtime) await out;
    }
    best = Math.min(best, (1e3 * (performance.now() - start)) / count);
  }
  line += ` | ${best.toFixed(2)}`;
}
if (page) await fetch(`/done?${encodeURIComponent(`${line} |`)}`);
else console.log(`${line} |`);
