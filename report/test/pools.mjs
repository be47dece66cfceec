// Pools of drawn predictions for tests. at: the path of a file of that name.
import { writeFileSync } from "node:fs";

function npy(at, name, type, shape, values) {
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(", ")},), }`;
  const header = Buffer.from(text.padEnd(128 - 10 - 1) + "\n", "latin1");
  const array = type === "<f4" ? Float32Array.from(values) : Int32Array.from(values);
  writeFileSync(at(name), Buffer.concat([Buffer.from("\x93NUMPY\x01\x00", "latin1"), Buffer.from([header.length & 255, header.length >> 8]), header, Buffer.from(array.buffer)]));
}

let state = 1;
const random = () => ((state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff);

export function pool(at, name, members, rows, classes) {
  const labels = Array.from({ length: rows }, (_, i) => i % classes.length);
  const models = members.map((member, k) => {
    const values = labels.flatMap((label) => {
      const scores = classes.map((_, c) => Math.exp(2 * random() + (c === label ? 1 + (k % 5) / 5 : 0)));
      const sum = scores.reduce((a, b) => a + b, 0);
      return scores.map((score) => score / sum);
    });
    npy(at, `${name}.${k}.npy`, "<f4", [rows, classes.length], values);
    return { name: member, flops: 1000 * (k + 1), predictions: { oof: `${name}.${k}.npy`, test: `${name}.${k}.npy` } };
  });
  npy(at, `${name}.labels.npy`, "<i4", [rows], labels);
  const split = { labels: `${name}.labels.npy` };
  writeFileSync(at(`${name}.json`), JSON.stringify({ corestack_pool: 1, task: "classification", classes, splits: { oof: split, test: split }, models }));
  return at(`${name}.json`);
}
